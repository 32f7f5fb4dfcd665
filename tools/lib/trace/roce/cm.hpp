// Encodes and decodes connection management messages: InfiniBand CM over queue pair 1, as used by RDMA CM.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tools/lib/trace/roce/packet.hpp"

namespace rtrs::roce {

enum class CmAttribute : std::uint16_t {
  request = 0x10,
  receipt = 0x11,  // MRA: announces to the peer that the response takes longer
  reject = 0x12,
  reply = 0x13,
  ready = 0x14,
  disconnect_request = 0x15,
  disconnect_reply = 0x16,
};

inline constexpr std::uint64_t kTcpServicePrefix = 0x0000000001060000;
inline constexpr std::uint16_t kRejectTimeout = 4;
inline constexpr std::uint16_t kRejectConsumer = 28;
inline constexpr std::size_t kMadBytes = 256;

// A CM message. The comments name the messages that use a field.
struct CmMessage {
  CmAttribute attribute = CmAttribute::request;
  std::uint64_t transaction = 0;
  std::uint32_t local_id = 0;     // CM id of the sender
  std::uint32_t remote_id = 0;    // CM id of the receiver; not in a request
  std::uint64_t service = 0;      // requests only
  std::uint32_t qpn = 0;          // request, reply: QPN of the sender; disconnect request: of the receiver
  std::uint32_t psn = 0;          // request, reply: first PSN that the sender expects from its peer
  std::uint8_t path_mtu = 0;      // request: 1 = 256 bytes .. 5 = 4096
  std::uint16_t reason = 0;       // rejects only
  std::uint16_t source_port = 0;  // requests only
  Address source;                 // requests only
  Address destination;            // requests only
  // Private data of the consumer; in a received message padded to the size of the field. At most 56 bytes in
  // a request, 196 in a reply, 148 in a reject.
  std::vector<std::byte> private_data;
};

// Returns nullopt if the packet is no CM message, is truncated, or has an attribute not listed above.
[[nodiscard]] std::optional<CmMessage> decode_cm(const Packet& packet);
// Returns the payload of a datagram to queue pair 1.
[[nodiscard]] std::vector<std::byte> encode_cm(const CmMessage& message);
// Returns the packet that carries the message.
[[nodiscard]] Packet cm_packet(const Address& from, const Address& to, std::uint32_t psn,
                               const CmMessage& message);

// Returns the MTU in bytes for a path MTU code; 0 for an unknown code.
[[nodiscard]] std::uint32_t mtu_bytes(std::uint8_t code) noexcept;
// Returns the path MTU code for 256, 512, 1024, 2048 or 4096 bytes; 0 for another number.
[[nodiscard]] std::uint8_t mtu_code(std::uint32_t bytes) noexcept;

}  // namespace rtrs::roce
