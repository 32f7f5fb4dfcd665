// O9: while a client has no connected path, a request waits at most queue_timeout. The time counts from the
// latest of three moments: the submission of the request; the loss of the last path; the end of draining of a
// path that was connected, because until then the fabric owns memory of its requests.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/driver/path_event.hpp"

namespace rtrs::sim {

class PathlessWait {
 public:
  // Must be called for all events of a client, in order, with the times of the client's clock.
  void note(const PathEvent& news) noexcept {
    if (news.kind == PathEvent::Kind::link_up) down_since_ = kNever;
    if (news.kind == PathEvent::Kind::link_down) down_since_ = news.at;
    if (news.kind != PathEvent::Kind::path) return;
    const std::uint32_t bit = std::uint32_t{1} << news.path.path;
    switch (news.path.state) {
      case PathState::connected:
        connected_ |= bit;
        break;
      case PathState::draining:
      case PathState::closing:
        if ((connected_ & bit) != 0) draining_ |= bit;
        connected_ &= ~bit;
        break;
      default:
        if ((draining_ & bit) != 0) drained_at_ = news.at;
        draining_ &= ~bit;
    }
  }
  // Returns when the wait of a request submitted at `submitted` began; kNever: it does not wait for a path.
  Nanos since(Nanos submitted) const noexcept {
    if (down_since_ == kNever || draining_ != 0) return kNever;
    return std::max({submitted, down_since_, drained_at_});
  }

 private:
  std::uint32_t connected_ = 0;  // one bit per path
  std::uint32_t draining_ = 0;   // one bit per path: lost while connected, and not drained yet
  Nanos down_since_ = kNever;
  Nanos drained_at_ = 0;
};

}  // namespace rtrs::sim
