// What one work request of a reliable connection puts on the wire.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/lib/trace/roce/packet.hpp"

namespace rtrs::roce {

struct Message {
  enum class Op : std::uint8_t { write, write_imm, send, send_imm, send_inv };
  Op op = Op::write;
  std::uint32_t imm = 0;          // write_imm, send_imm; host order
  std::uint32_t rkey = 0;         // write, write_imm, send_inv
  std::uint64_t remote_addr = 0;  // write, write_imm
  std::vector<std::byte> payload;
  bool operator==(const Message&) const = default;

  [[nodiscard]] bool has_imm() const noexcept { return op == Op::write_imm || op == Op::send_imm; }
};

// Payload of invalidations in captures that are made of traces. On the wire they have none, and Wireshark
// (4.0 to 4.4 at least) reads bytes 0 to 3 and 12 to 15 of every SEND before it looks at its length, to see
// whether it is RPC over RDMA: without them it calls the packet malformed.
inline constexpr std::size_t kInvalidationFiller = 16;
[[nodiscard]] std::vector<std::byte> invalidation_filler();
[[nodiscard]] bool is_filled_invalidation(const Message&) noexcept;

// What the opcode says about a packet's place in its message.
struct Place {
  bool carries = false;  // part of a SEND or write
  bool first = false;
  bool last = false;
  bool write = false;
};
[[nodiscard]] Place place_of(Opcode) noexcept;

}  // namespace rtrs::roce
