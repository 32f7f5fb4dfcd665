#include "tools/urtrsd/storage/nbd_link.hpp"

#include <algorithm>

namespace rtrs::daemon {

void NbdLink::lost(Nanos now) noexcept {
  if (changes_ != flushed_) losses_ = {losses_.count + 1, false};
  flushed_ = changes_;
  if (up_) down_since_ = now;
  up_ = false;
  next_ = now + kPause;
}

void NbdLink::flushed(std::uint64_t changes) noexcept {
  flushed_ = std::max(flushed_, changes);
}

bool NbdLink::take_loss(std::uint64_t& seen, std::uint64_t at_begin) noexcept {
  if (at_begin == losses_.count) return false;
  seen = losses_.count;
  losses_.reported = true;
  return true;
}

}  // namespace rtrs::daemon
