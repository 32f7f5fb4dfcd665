// One direction of a reliable connection: packets in the order of the capture become messages in the order
// of their sequence numbers. Retransmissions are dropped, packets that overtook others wait for these.
#pragma once
#include <cstdint>
#include <functional>
#include <map>

#include "tools/lib/trace/roce/message.hpp"

namespace rtrs::roce {

class Stream {
 public:
  // Sequence numbers here are counted on beyond the 24 bits of the packet and never wrap.
  using Psn = std::uint64_t;
  // Packets in front of a lost one that are kept.
  static constexpr std::size_t kMaxWaiting = 16384;

  struct Sink {
    std::function<void(std::uint64_t time, Psn last, Message&&)> message;
    // Packets that the peer received and the capture does not have; a message among them is lost with them.
    std::function<void(std::uint64_t time, std::uint64_t packets)> gap;
  };
  Stream(std::uint32_t first_psn, Sink sink);

  // A data packet of this direction. False for a retransmission.
  bool packet(std::uint64_t time, Packet&& packet);
  // The peer acknowledged all packets before `psn` (24 bits).
  void acknowledged_before(std::uint64_t time, std::uint32_t psn);
  // First sequence number that is not known to have arrived.
  [[nodiscard]] Psn acknowledged() const noexcept { return acknowledged_; }
  // Packets wait for one that was lost before the capture saw it.
  [[nodiscard]] bool incomplete() const noexcept { return !waiting_.empty() || open_; }

 private:
  [[nodiscard]] Psn unwrap(std::uint32_t psn) const noexcept;
  void take(std::uint64_t time, Psn psn, Packet&& packet);
  void drain(std::uint64_t time);
  void skip_to(std::uint64_t time, Psn psn);
  void close(std::uint64_t time, Psn psn, const Packet& packet);

  Sink sink_;
  Psn next_;
  Psn acknowledged_;
  std::map<Psn, Packet> waiting_;
  bool open_ = false;  // a message has begun and not ended
  bool whole_ = true;  // nothing of it was cut by the capture
  bool write_ = false;
  Message message_;
};

}  // namespace rtrs::roce
