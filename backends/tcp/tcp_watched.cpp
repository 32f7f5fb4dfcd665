#include "backends/tcp/tcp_watched.hpp"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace rtrs::tcp {

Nanos clock_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return seconds(static_cast<std::uint64_t>(now.tv_sec)) + static_cast<std::uint64_t>(now.tv_nsec);
}

int Poller::open() noexcept {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return errno;
  timer_.socket.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_.socket || !watch(timer_, EPOLLIN)) return errno;
  signal_.socket.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signal_.socket || !watch(signal_, EPOLLIN)) return errno;
  return 0;
}

bool Poller::watch(Watched& one, std::uint32_t interest) noexcept {
  if (one.watched && one.interest == interest) return true;
  epoll_event event{};
  event.events = interest;
  event.data.ptr = &one;
  const int how = one.watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (::epoll_ctl(epoll_.get(), how, one.socket.get(), &event) != 0) return false;
  one.watched = true;
  one.interest = interest;
  return true;
}

void Poller::forget(Watched& one) noexcept {
  if (!std::exchange(one.watched, false)) return;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.socket.get(), nullptr);
}

std::span<const epoll_event> Poller::look() noexcept {
  const int count = ::epoll_wait(epoll_.get(), named_.data(), static_cast<int>(named_.size()), 0);
  return std::span(named_).first(count < 0 ? 0 : static_cast<std::size_t>(count));
}

void Poller::wake_at(Nanos when) noexcept {
  if (when >= armed_) return;
  armed_ = when;
  itimerspec setting{};
  setting.it_value.tv_sec = static_cast<time_t>(when / seconds(1));
  // All zeroes would switch it off.
  setting.it_value.tv_nsec = static_cast<long>(when % seconds(1) == 0 ? 1 : when % seconds(1));
  ::timerfd_settime(timer_.socket.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

void Poller::fired() noexcept {
  std::uint64_t times = 0;
  [[maybe_unused]] const ssize_t size = ::read(timer_.socket.get(), &times, sizeof times);
  armed_ = kNever;
}

void Poller::signal() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = ::write(signal_.socket.get(), &one, sizeof one);
}

void Poller::signal_seen() noexcept {
  std::uint64_t times = 0;
  [[maybe_unused]] const ssize_t size = ::read(signal_.socket.get(), &times, sizeof times);
}

}  // namespace rtrs::tcp
