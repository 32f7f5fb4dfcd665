// Heartbeat of one path (protocol section 7): sends one HB_MSG per silent interval; anything received proves
// that the peer is alive. A value type; the owner feeds time and arrivals.
#pragma once
#include <cstdint>

#include "core/base/reflect.hpp"
#include "core/proto/config.hpp"
#include "core/proto/ids.hpp"

namespace rtrs {

class Heartbeat {
 public:
  enum class Tick : std::uint8_t { nothing, send, dead };

  void start(Nanos now, const HeartbeatConfig& config) noexcept {
    missed_ = 0;
    deadline_ = later(now, config.interval);
  }
  void stop() noexcept { deadline_ = kNever; }
  Nanos deadline() const noexcept { return deadline_; }

  // Call when `now` has reached deadline(). `send`: post an HB_MSG. `dead`: the peer was silent too long. A
  // peer is dead at the tick that finds more than missed_max missed intervals, which is missed_max + 1
  // intervals after the tick that sent the unanswered HB_MSG. A late tick, as after a pause of the process,
  // counts as one tick. The next tick is a whole interval later, so that messages that arrived during the
  // pause are processed first.
  Tick on_tick(Nanos now, const HeartbeatConfig& config) noexcept {
    if (missed_ > config.missed_max) {
      deadline_ = kNever;
      return Tick::dead;
    }
    deadline_ = later(now, config.interval);
    if (missed_++ != 0) return Tick::nothing;
    last_sent_ = now;
    return Tick::send;
  }
  void received() noexcept { missed_ = 0; }
  Nanos last_sent() const noexcept { return last_sent_; }
  // Returns the send time of an HB_MSG after which nothing was received for at least one interval; kNever if
  // there is none.
  Nanos silent_since() const noexcept { return missed_ > 1 ? last_sent_ : kNever; }
  // Call when HB_ACK has arrived. Returns the round-trip time of the last HB_MSG.
  Nanos acknowledged(Nanos now) const noexcept { return now - last_sent_; }

  bool operator==(const Heartbeat&) const = default;
  RTRS_FIELDS(deadline_, last_sent_, missed_)

 private:
  Nanos deadline_ = kNever;
  Nanos last_sent_ = 0;
  std::uint32_t missed_ = 0;
};

}  // namespace rtrs
