// Detects a connection that no longer delivers (docs/architecture.md). The heartbeat covers the path as a
// whole, so it does not detect a single dead connection. If requests are outstanding on a connection and
// nothing arrives for one interval, this side sends a probe over it. If the peers agreed on the probe
// extension, the client sends HB_MSG and the server replies with HB_ACK on the same connection. Otherwise, on
// fabrics where a completion proves delivery, either side posts ProbeDelivery, whose completion is the reply.
// A value type; the path's heartbeat calls on_tick().
#pragma once
#include <cstdint>

#include "core/base/reflect.hpp"
#include "core/proto/config.hpp"

namespace rtrs {

class Probe {
 public:
  // True if the connection is dead. A connection is dead between (missed_max + 1) and (missed_max + 2)
  // intervals after the last arrival or, if that was later, after the first outstanding request was posted.
  bool is_dead(bool outstanding, const HeartbeatConfig& config) const noexcept {
    return outstanding && missed_ > config.missed_max;
  }
  // Call on each tick unless is_dead(). At most one probe is unanswered, so that one receive suffices for
  // HB_MSG.
  void on_tick(bool outstanding) noexcept {
    if (!outstanding) {
      missed_ = 0;
      return;
    }
    if (missed_++ != 0 || unanswered_) return;
    unanswered_ = owed_ = true;
  }
  void received() noexcept { missed_ = 0; }
  void answered() noexcept { unanswered_ = false; }
  // True if a probe waits for room in the send queue.
  bool owed() const noexcept { return owed_; }
  void sent() noexcept { owed_ = false; }

  bool operator==(const Probe&) const = default;
  RTRS_FIELDS(missed_, unanswered_, owed_)

 private:
  std::uint32_t missed_ = 0;
  bool unanswered_ = false;
  bool owed_ = false;
};

}  // namespace rtrs
