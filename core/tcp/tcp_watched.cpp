#include "core/tcp/tcp_watched.hpp"

namespace rtrs::tcp {

bool Poller::watch(Watched& one, std::uint32_t interest) noexcept {
  if (one.watched && one.interest == interest) return true;
  if (!transport_.watch(one.socket.get(), interest, one)) return false;
  one.watched = true;
  one.interest = interest;
  return true;
}

void Poller::forget(Watched& one) noexcept {
  if (std::exchange(one.watched, false)) transport_.forget(one.socket.get());
}

void Poller::wake_at(Nanos when) noexcept {
  if (when >= armed_) return;
  armed_ = when;
  transport_.arm(when);
}

}  // namespace rtrs::tcp
