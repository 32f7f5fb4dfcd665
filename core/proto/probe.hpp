// Whether one connection of a path still delivers (docs/architecture.md). The heartbeat speaks for the whole
// path, so that a single connection that delivers nothing stays unnoticed under it. While something is
// outstanding on a connection, a silent interval makes this side send a probe over it. Between peers that
// agreed on the probe extension the client sends HB_MSG, which the server answers by HB_ACK over the same
// connection. Otherwise, where a completion proves delivery, either side posts ProbeDelivery, and completions
// are the answers. A value, driven by the ticks of the path's heartbeat.
#pragma once
#include <cstdint>

#include "core/base/reflect.hpp"
#include "core/proto/config.hpp"

namespace rtrs {

class Probe {
 public:
  // True when the connection is dead: between (missed_max + 1) and (missed_max + 2) intervals after the last
  // arrival or, if that was later, after the first outstanding request was posted.
  bool is_dead(bool outstanding, const HeartbeatConfig& config) const noexcept {
    return outstanding && missed_ > config.missed_max;
  }
  // A tick that did not find it dead. At most one probe is unanswered, so that one receive suffices for
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
  // A probe that waits for room in the send queue.
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
