// One direction of a reliable connection. Takes packets in capture order and assembles them to messages in
// the order of sequence numbers. Drops retransmissions. A packet that overtook others waits until those
// arrive.
#pragma once
#include <cstdint>
#include <functional>
#include <map>

#include "tools/lib/trace/roce/message.hpp"

namespace rtrs::roce {

class Stream {
 public:
  // Sequence number, extended beyond the 24 bits of the packet so that it never wraps.
  using Psn = std::uint64_t;
  // Maximum number of packets that wait for a missing packet.
  static constexpr std::size_t kMaxWaiting = 16384;

  struct Sink {
    std::function<void(std::uint64_t time, Psn last, Message&&)> message;
    // Reports packets that the peer received, but that are not in the capture. Their messages are lost.
    std::function<void(std::uint64_t time, std::uint64_t packets)> gap;
  };
  Stream(std::uint32_t first_psn, Sink sink);

  // Processes a data packet of this direction. Returns false for a retransmission.
  bool packet(std::uint64_t time, Packet&& packet);
  // Call when the peer has acknowledged all packets before `psn` (24 bits).
  void acknowledged_before(std::uint64_t time, std::uint32_t psn);
  // Returns the first sequence number that is not known to have arrived.
  [[nodiscard]] Psn acknowledged() const noexcept { return acknowledged_; }
  // Returns true if packets wait for a missing packet, or if a message is incomplete.
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
  bool open_ = false;  // a message is incomplete
  bool whole_ = true;  // the capture has all bytes of the message
  bool write_ = false;
  Message message_;
};

}  // namespace rtrs::roce
