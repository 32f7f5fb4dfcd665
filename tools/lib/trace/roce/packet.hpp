// Encodes and decodes RoCEv2 packets: Ethernet, IP, UDP port 4791, InfiniBand transport headers, payload,
// ICRC.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/lib/trace/roce/ip.hpp"

namespace rtrs::roce {

inline constexpr std::uint16_t kUdpPort = 4791;
inline constexpr std::uint32_t kPsnMask = 0xffffff;
inline constexpr std::uint32_t kCmQueuePair = 1;

// BTH opcodes of a reliable connection, and of the datagrams that carry CM messages.
enum class Opcode : std::uint8_t {
  send_first = 0,
  send_middle = 1,
  send_last = 2,
  send_last_imm = 3,
  send_only = 4,
  send_only_imm = 5,
  write_first = 6,
  write_middle = 7,
  write_last = 8,
  write_last_imm = 9,
  write_only = 10,
  write_only_imm = 11,
  read_request = 12,
  read_response_first = 13,
  read_response_middle = 14,
  read_response_last = 15,
  read_response_only = 16,
  acknowledge = 17,
  atomic_acknowledge = 18,
  compare_swap = 19,
  fetch_add = 20,
  send_last_inv = 22,
  send_only_inv = 23,
  datagram_send_only = 100,
};

// Extended headers after the BTH, in packet order.
struct HeaderSet {
  bool deth = false;
  bool reth = false;
  bool aeth = false;
  bool imm = false;
  bool ieth = false;
  bool known = false;  // the opcode is a value of Opcode
};
[[nodiscard]] HeaderSet headers_of(Opcode) noexcept;

// Upper three bits of the AETH syndrome. The lower five bits are timer, credits or error code.
enum class Acknowledgement : std::uint8_t { ack = 0, rnr_nak = 1, nak = 3 };
enum class NakCode : std::uint8_t {
  psn_sequence = 0,
  invalid_request = 1,
  remote_access = 2,
  remote_operation = 3,
};

struct Packet {
  Address source;
  Address destination;
  std::uint16_t source_port = 0;
  Opcode opcode = Opcode::send_only;
  bool solicited = false;
  bool ack_request = false;
  std::uint16_t pkey = 0xffff;
  std::uint32_t dest_qp = 0;       // queue pair of the receiver, 24 bits
  std::uint32_t psn = 0;           // packet sequence number, 24 bits
  std::uint32_t qkey = 0;          // from the DETH
  std::uint32_t source_qp = 0;     // from the DETH
  std::uint64_t remote_addr = 0;   // from the RETH
  std::uint32_t rkey = 0;          // from the RETH or IETH
  std::uint32_t dma_length = 0;    // from the RETH
  std::uint32_t imm = 0;           // immediate, in host order
  std::uint8_t syndrome = 0;       // from the AETH
  std::uint32_t msn = 0;           // from the AETH
  std::uint32_t payload_cut = 0;   // number of payload bytes that are missing from the capture
  bool bad_icrc = false;           // in a decoded packet: the ICRC is wrong
  std::vector<std::byte> payload;  // payload without padding

  [[nodiscard]] Acknowledgement acknowledgement() const noexcept {
    return static_cast<Acknowledgement>(syndrome >> 5);
  }
  [[nodiscard]] std::uint8_t syndrome_value() const noexcept { return syndrome & 0x1fU; }
};

enum class Decoded : std::uint8_t {
  packet,
  other,      // the frame is not RoCEv2
  malformed,  // RoCEv2, but a header is truncated or the opcode is unknown
};
// Decodes a frame. `original`: length on the wire, in bytes; `frame` may be shorter. Sets `packet` only if
// the result is Decoded::packet.
[[nodiscard]] Decoded decode(std::uint16_t link, Bytes frame, std::size_t original, Packet& packet);

// Returns an Ethernet frame with IPv4 or IPv6, depending on the addresses. MAC addresses are derived from the
// IP addresses. Precondition: both addresses are of one family, and the payload has at most 2^16 - 100 bytes.
[[nodiscard]] std::vector<std::byte> encode(const Packet& packet);

}  // namespace rtrs::roce
