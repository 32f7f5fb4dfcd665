// Detects a network that drops large packets and delivers small ones. The cause is a device on the route that
// has a smaller MTU and whose ICMP message is lost: heartbeats arrive, data does not.
#pragma once
#include <cstdint>

#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

// Delivery state of one connection, checked periodically.
class DeliveryWatch {
 public:
  // `sent`: bytes that the transport accepted so far. Returns false if all of them are known to be
  // acknowledged, which saves a system call.
  [[nodiscard]] bool needs_check(std::uint64_t sent) const noexcept { return sent != settled_; }

  // Called for the first connection of a path, which carries the heartbeat. Returns true if bytes were
  // acknowledged since the last check.
  bool advanced(const Transport::Delivery& now) noexcept {
    const std::uint64_t before = settled_;
    settled_ = now.acknowledged;
    return now.known && now.acknowledged > before;
  }

  // Called for the other connections of the path. `small_pass`: result of advanced() for the first connection
  // of the path. Returns true once per stall, after kProofs intervals in which packets were sent without
  // acknowledgement while small packets were acknowledged. A plain outage has at most one such interval, the
  // one in which it ends, because the next packet is acknowledged.
  bool is_black_hole(const Transport::Delivery& now, std::uint64_t sent, bool small_pass) noexcept {
    if (now.known && !now.pending) settled_ = sent;
    if (!now.pending || now.acknowledged != acknowledged_) {
      acknowledged_ = now.acknowledged;
      packets_ = now.packets;
      proofs_ = 0;
      return false;
    }
    if (now.packets <= packets_ || now.quiet < kAnswerTime) return false;
    packets_ = now.packets;
    if (!small_pass || proofs_ == kProofs) return false;
    return ++proofs_ == kProofs;
  }

 private:
  static constexpr unsigned kProofs = 2;
  static constexpr Nanos kAnswerTime = milliseconds(200);  // upper bound of a round trip
  std::uint64_t settled_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t packets_ = 0;
  unsigned proofs_ = 0;
};

// True if only bytes of the greeting (the first `greeting` bytes) were acknowledged before the connection
// ended.
constexpr bool passed_greeting_only(const Transport::Delivery& end, std::uint64_t greeting) noexcept {
  constexpr unsigned kAttempts = 3;
  return end.pending && end.attempts >= kAttempts && end.acknowledged != 0 && end.acknowledged <= greeting;
}

}  // namespace rtrs::tcp
