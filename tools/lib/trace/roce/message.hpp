// A message that one work request sends on a reliable connection.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/lib/trace/roce/packet.hpp"

namespace rtrs::roce {

struct Message {
  enum class Op : std::uint8_t { write, write_imm, send, send_imm, send_inv };
  Op op = Op::write;
  std::uint32_t imm = 0;          // write_imm and send_imm only; host order
  std::uint32_t rkey = 0;         // write, write_imm and send_inv only
  std::uint64_t remote_addr = 0;  // write and write_imm only
  std::vector<std::byte> payload;
  bool operator==(const Message&) const = default;

  [[nodiscard]] bool has_imm() const noexcept { return op == Op::write_imm || op == Op::send_imm; }
};

// Number of payload bytes that `urtrs-replay pcap` adds to invalidations, which have no payload on the wire.
// Wireshark (at least 4.0 to 4.4) checks each SEND for RPC over RDMA: it reads bytes 0 to 3 and 12 to 15
// before it checks the length, and reports a packet without these bytes as malformed.
inline constexpr std::size_t kInvalidationFiller = 16;
[[nodiscard]] std::vector<std::byte> invalidation_filler();
[[nodiscard]] bool is_filled_invalidation(const Message&) noexcept;

// Position of a packet in its message, according to its opcode.
struct Place {
  bool carries = false;  // the packet carries a part of a SEND or write
  bool first = false;
  bool last = false;
  bool write = false;
};
[[nodiscard]] Place place_of(Opcode) noexcept;

}  // namespace rtrs::roce
