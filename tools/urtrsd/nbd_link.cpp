#include "tools/urtrsd/nbd_link.hpp"

#include <algorithm>
#include <utility>

namespace rtrs::daemon {

void NbdLink::lost(Nanos now) noexcept {
  damaged_ = damaged_ || changes_ != flushed_;
  flushed_ = changes_;
  up_ = false;
  next_ = now + kPause;
}

void NbdLink::flushed(std::uint64_t changes) noexcept {
  flushed_ = std::max(flushed_, changes);
}

bool NbdLink::take_damage() noexcept {
  return std::exchange(damaged_, false);
}

}  // namespace rtrs::daemon
