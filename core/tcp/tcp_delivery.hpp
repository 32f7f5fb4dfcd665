// Whether the network drops large packets while it delivers small ones, as it does where one device on the
// way has a smaller MTU and the message that says so is lost: heartbeats pass, and data do not.
#pragma once
#include <cstdint>

#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

// One connection, looked at every so often.
class DeliveryWatch {
 public:
  // `sent`: octets that the transport took so far. False: all of them are known to be acknowledged, so that
  // the transport need not be asked.
  [[nodiscard]] bool wants_look(std::uint64_t sent) const noexcept { return sent != settled_; }

  // Of the first connection of a path, which carries the heartbeat: octets were acknowledged since the last
  // look.
  bool advanced(const Transport::Delivery& now) noexcept {
    const std::uint64_t before = settled_;
    settled_ = now.acknowledged;
    return now.known && now.acknowledged > before;
  }

  // Of another connection. `small_pass`: advanced() of the first connection of its path. True once for a
  // stall: data were sent again in vain in kProofs intervals in which small packets were acknowledged. An
  // outage gives one such interval at most, that in which it ends.
  bool is_black_hole(const Transport::Delivery& now, std::uint64_t sent, bool small_pass) noexcept {
    if (now.known && !now.pending) settled_ = sent;
    if (now.attempts < attempts_) proofs_ = 0;
    const bool again = attempts_ != 0 && now.attempts > attempts_;
    attempts_ = now.attempts;
    if (!again || !small_pass || proofs_ == kProofs) return false;
    return ++proofs_ == kProofs;
  }

 private:
  static constexpr unsigned kProofs = 2;
  std::uint64_t settled_ = 0;
  unsigned attempts_ = 0;
  unsigned proofs_ = 0;
};

// A connection that ended before any whole packet was acknowledged, although its first octets were.
constexpr bool passed_small_packets_only(const Transport::Delivery& end) noexcept {
  constexpr unsigned kAttempts = 3;
  return end.attempts >= kAttempts && end.acknowledged != 0 && end.acknowledged < end.packet_bytes;
}

}  // namespace rtrs::tcp
