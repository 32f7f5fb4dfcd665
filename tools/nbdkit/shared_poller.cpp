#include "tools/nbdkit/shared_poller.hpp"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <system_error>
#include <utility>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "backends/platform/address/signals_blocked.hpp"

namespace rtrs::nbdkit {
namespace {

// If the source has no descriptor, the keeper calls step() once per this time.
constexpr std::chrono::milliseconds kIdlePause{1};

std::chrono::steady_clock::time_point time_point(Nanos at) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at));
}

void sleep_on(int source, int kick, Nanos until, Nanos now) {
  pollfd descriptors[2] = {{source, POLLIN, 0}, {kick, POLLIN, 0}};
  timespec left{};
  if (until != kNever) {
    left.tv_sec = static_cast<time_t>((until - now) / seconds(1));
    left.tv_nsec = static_cast<long>((until - now) % seconds(1));
  }
  ::ppoll(descriptors, 2, until == kNever ? nullptr : &left, nullptr);
}

}  // namespace

void SharedPoller::Lock::release() {
  Waiter* next = std::exchange(poller_.to_wake_, nullptr);
  held_.unlock();
  while (next != nullptr) {
    // Reads `next_` before sem_post(), because the woken thread may destroy the waiter.
    Waiter* const one = std::exchange(next, next->next_);
    ::sem_post(&one->woken_);
  }
}

SharedPoller::SharedPoller(Source& source)
    : source_(source), kick_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (kick_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  const net::SignalsBlocked blocked;
  thread_ = std::thread([this] { keep(); });
}

SharedPoller::~SharedPoller() {
  {
    const Lock lock(*this);
    stopping_ = true;
    sleeps_until_ = kNever;
    nudge();
    keeper_.notify_all();
  }
  thread_.join();
  ::close(kick_);
}

void SharedPoller::wait(Lock& lock, Waiter& waiter) {
  if (!turns_.begin(waiter)) {
    nudge();
    lock.release();
    while (::sem_wait(&waiter.woken_) != 0) {
    }
    // Needs no lock, because `polls` does not change after the thread was woken.
    if (!waiter.polls) return;
    lock.acquire();
  }
  while (!waiter.done) {
    sleep_until_event(lock);
    step(lock);
  }
  wake_next(turns_.leave(waiter));
  lock.release();
}

void SharedPoller::finish(Waiter& waiter) {
  if (turns_.finish(waiter)) wake_later(waiter);
}

void SharedPoller::wake_later(Waiter& waiter) {
  waiter.next_ = std::exchange(to_wake_, &waiter);
}

void SharedPoller::wake_next(const PollTurns::Next& next) {
  if (next.waiter != nullptr) wake_later(static_cast<Waiter&>(*next.waiter));
  if (next.keeper) keeper_.notify_one();
}

void SharedPoller::wait_for_news(Lock& lock, Nanos until) {
  nudge();
  wake_now(lock);
  if (until == kNever)
    news_.wait(lock.held_);
  else
    news_.wait_until(lock.held_, time_point(until));
}

void SharedPoller::nudge() {
  if (kicked_ || sleeps_until_ == 0) return;
  if (!stopping_ && source_.next_deadline() >= sleeps_until_) return;
  kicked_ = true;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(kick_, &one, sizeof one);
}

// Sleeps until the source has events, the next deadline is reached, or nudge() is called. Returns immediately
// if the source already has events.
void SharedPoller::sleep_until_event(Lock& lock) {
  const int descriptor = source_.wait_fd();
  if (descriptor >= 0 && !source_.try_wait()) return;
  const Nanos until = source_.next_deadline();
  const Nanos now = asio::steady_now();
  if (until <= now) return;
  if (descriptor < 0) {
    lock.release();
    ::sched_yield();
    return lock.acquire();
  }
  sleeps_until_ = until;
  lock.release();
  sleep_on(descriptor, kick_, until, now);
  lock.acquire();
  sleeps_until_ = 0;
  if (!std::exchange(kicked_, false)) return;
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(kick_, &count, sizeof count);
}

// Wakes the threads of completed operations now. Otherwise they would wait until the poller sleeps.
void SharedPoller::step(Lock& lock) {
  source_.step(asio::steady_now());
  wake_now(lock);
}

void SharedPoller::wake_now(Lock& lock) {
  if (to_wake_ == nullptr) return;
  lock.release();
  lock.acquire();
}

void SharedPoller::keep() {
  Lock lock(*this);
  while (!stopping_) {
    switch (turns_.check_keeper()) {
      case PollTurns::Keeper::polls:
        keep_polling(lock);
        break;
      case PollTurns::Keeper::pauses:
        keeper_.wait_for(lock.held_, std::chrono::nanoseconds(kPause));
        break;
      case PollTurns::Keeper::parks:
        keeper_.wait(lock.held_);
        break;
    }
  }
}

void SharedPoller::keep_polling(Lock& lock) {
  while (!stopping_ && !turns_.keeper_should_stop()) {
    if (source_.wait_fd() >= 0)
      sleep_until_event(lock);
    else
      keeper_.wait_for(lock.held_, kIdlePause);
    step(lock);
  }
  wake_next(turns_.stop_keeper());
  wake_now(lock);
}

}  // namespace rtrs::nbdkit
