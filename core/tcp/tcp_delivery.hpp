// Whether the network drops large packets while it delivers small ones, as it does where one device on the
// way has a smaller MTU and the message that says so is lost: heartbeats pass, and data do not.
#pragma once
#include <cstdint>

#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

// One connection, looked at every so often.
class DeliveryWatch {
 public:
  // `sent`: bytes that the transport took so far. False: all of them are known to be acknowledged, so that no
  // system call is needed.
  [[nodiscard]] bool wants_look(std::uint64_t sent) const noexcept { return sent != settled_; }

  // For the first connection of a path, which carries the heartbeat. True: bytes were acknowledged since the
  // last look.
  bool advanced(const Transport::Delivery& now) noexcept {
    const std::uint64_t before = settled_;
    settled_ = now.acknowledged;
    return now.known && now.acknowledged > before;
  }

  // For another connection. `small_pass`: advanced() of the first connection of its path. True once per
  // stall: packets were sent in vain in kProofs intervals in which small packets were acknowledged. An outage
  // has at most one such interval, the one in which it ends: the next packet is acknowledged.
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
  static constexpr Nanos kAnswerTime = milliseconds(200);  // an acknowledgement takes less
  std::uint64_t settled_ = 0;
  std::uint64_t acknowledged_ = 0;
  std::uint64_t packets_ = 0;
  unsigned proofs_ = 0;
};

// A connection that ended before anything behind its first `greeting` bytes was acknowledged, although these
// were.
constexpr bool passed_greeting_only(const Transport::Delivery& end, std::uint64_t greeting) noexcept {
  constexpr unsigned kAttempts = 3;
  return end.pending && end.attempts >= kAttempts && end.acknowledged != 0 && end.acknowledged <= greeting;
}

}  // namespace rtrs::tcp
