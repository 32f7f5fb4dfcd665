#include "tools/lib/trace/roce/cm.hpp"

#include <algorithm>

namespace rtrs::roce {
namespace {

constexpr std::size_t kMadHeader = 24;
constexpr std::uint8_t kCmClass = 7;
constexpr std::uint32_t kCmQkey = 0x80010000;
// RDMA CM inserts its own header (kIpCmHeader bytes) before the consumer's data of a request.
constexpr std::size_t kRequestPrivate = 140;
constexpr std::size_t kIpCmHeader = 36;

struct Field {
  std::size_t at = 0;
  std::size_t size = 0;
};

// Returns the position of the consumer's private data, relative to the end of the MAD header.
Field private_field(CmAttribute attribute) noexcept {
  switch (attribute) {
    case CmAttribute::request:
      return {kRequestPrivate + kIpCmHeader, 56};
    case CmAttribute::receipt:
      return {10, 222};
    case CmAttribute::reject:
      return {84, 148};
    case CmAttribute::reply:
      return {36, 196};
    case CmAttribute::ready:
    case CmAttribute::disconnect_reply:
      return {8, 224};
    case CmAttribute::disconnect_request:
      return {12, 220};
  }
  return {};
}

void load_request(Bytes body, CmMessage& message) {
  message.service = load_be(body, 8, 8);
  message.qpn = load_be24(body, 32);
  message.psn = load_be24(body, 44);
  message.path_mtu = static_cast<std::uint8_t>(load_be8(body, 50) >> 4);
  message.source_port = load_be16(body, kRequestPrivate + 2);
  const bool four = load_be8(body, kRequestPrivate + 1) >> 4 == 4;
  for (std::size_t i = 0; i < 16; ++i) {
    message.source.bytes[i] = load_be8(body, kRequestPrivate + 4 + i);
    message.destination.bytes[i] = load_be8(body, kRequestPrivate + 20 + i);
  }
  if (!four) return;
  for (Address* address : {&message.source, &message.destination}) {
    const auto& bytes = address->bytes;
    *address = ipv4(bytes[12], bytes[13], bytes[14], bytes[15]);
  }
}

void store_address(MutableBytes body, std::size_t at, const Address& address) {
  const std::size_t skip = address.is_ipv4() ? 12 : 0;
  for (std::size_t i = skip; i < 16; ++i) store_be(body, at + i, 1, address.bytes[i]);
}

// Writes a connect request with the values that rdma_cm and a kernel RTRS client use.
void store_request(MutableBytes body, const CmMessage& message) {
  store_be(body, 8, 8, message.service);
  store_be(body, 16, 8, load_be(std::as_bytes(std::span(message.source.bytes)), 8, 8));  // CA GUID
  store_be(body, 32, 3, message.qpn);
  store_be(body, 43, 1, 20 << 3);  // response timeout of the peer
  store_be(body, 44, 3, message.psn);
  store_be(body, 47, 1, (20 << 3) | 7);                          // response timeout, retries
  store_be(body, 48, 2, 0xffff);                                 // partition key
  store_be(body, 50, 1, (unsigned{message.path_mtu} << 4) | 7);  // RNR retries: unlimited
  store_be(body, 51, 1, 15 << 4);                                // CM retries
  store_be(body, 52, 2, 0xffff);
  store_be(body, 54, 2, 0xffff);
  for (std::size_t i = 0; i < 16; ++i) {
    store_be(body, 56 + i, 1, message.source.bytes[i]);
    store_be(body, 72 + i, 1, message.destination.bytes[i]);
  }
  store_be(body, 88, 4, 0x3e);     // packet rate
  store_be(body, 93, 1, 64);       // hop limit
  store_be(body, 95, 1, 17 << 3);  // local ACK timeout
  store_be(body, kRequestPrivate + 1, 1, message.source.is_ipv4() ? 0x40 : 0x60);
  store_be(body, kRequestPrivate + 2, 2, message.source_port);
  store_address(body, kRequestPrivate + 4, message.source);
  store_address(body, kRequestPrivate + 20, message.destination);
}

void store_reply(MutableBytes body, const CmMessage& message) {
  store_be(body, 12, 3, message.qpn);
  store_be(body, 20, 3, message.psn);
  store_be(body, 26, 1, 15 << 3);  // target ACK delay
  store_be(body, 27, 1, 7 << 5);   // RNR retries: unlimited
}

}  // namespace

std::optional<CmMessage> decode_cm(const Packet& packet) {
  if (packet.opcode != Opcode::datagram_send_only || packet.dest_qp != kCmQueuePair ||
      packet.payload.size() < kMadBytes)
    return std::nullopt;
  const Bytes mad(packet.payload);
  if (load_be8(mad, 1) != kCmClass) return std::nullopt;
  const Bytes body = mad.subspan(kMadHeader);
  CmMessage message;
  message.attribute = static_cast<CmAttribute>(load_be16(mad, 16));
  const Field field = private_field(message.attribute);
  if (field.size == 0) return std::nullopt;
  message.transaction = load_be(mad, 8, 8);
  message.local_id = load_be32(body, 0);
  if (message.attribute != CmAttribute::request) message.remote_id = load_be32(body, 4);
  if (message.attribute == CmAttribute::request) load_request(body, message);
  if (message.attribute == CmAttribute::reply) {
    message.qpn = load_be24(body, 12);
    message.psn = load_be24(body, 20);
  }
  if (message.attribute == CmAttribute::disconnect_request) message.qpn = load_be24(body, 8);
  if (message.attribute == CmAttribute::reject) message.reason = load_be16(body, 10);
  const Bytes data = body.subspan(field.at, field.size);
  message.private_data.assign(data.begin(), data.end());
  return message;
}

std::vector<std::byte> encode_cm(const CmMessage& message) {
  std::vector<std::byte> mad(kMadBytes);
  store_be(mad, 0, 4, 0x01070203);  // base version, class, class version, method Send
  store_be(mad, 8, 8, message.transaction);
  store_be(mad, 16, 2, static_cast<std::uint16_t>(message.attribute));
  const MutableBytes body = MutableBytes(mad).subspan(kMadHeader);
  store_be(body, 0, 4, message.local_id);
  if (message.attribute != CmAttribute::request) store_be(body, 4, 4, message.remote_id);
  if (message.attribute == CmAttribute::request) store_request(body, message);
  if (message.attribute == CmAttribute::reply) store_reply(body, message);
  if (message.attribute == CmAttribute::disconnect_request) store_be(body, 8, 3, message.qpn);
  if (message.attribute == CmAttribute::reject) store_be(body, 10, 2, message.reason);
  const Field field = private_field(message.attribute);
  const std::size_t size = std::min(field.size, message.private_data.size());
  std::copy_n(message.private_data.begin(), size, body.begin() + static_cast<std::ptrdiff_t>(field.at));
  return mad;
}

Packet cm_packet(const Address& from, const Address& to, std::uint32_t psn, const CmMessage& message) {
  Packet packet;
  packet.source = from;
  packet.destination = to;
  packet.source_port = kUdpPort;
  packet.opcode = Opcode::datagram_send_only;
  packet.dest_qp = kCmQueuePair;
  packet.source_qp = kCmQueuePair;
  packet.qkey = kCmQkey;
  packet.psn = psn;
  packet.payload = encode_cm(message);
  return packet;
}

std::uint32_t mtu_bytes(std::uint8_t code) noexcept {
  return code >= 1 && code <= 5 ? std::uint32_t{128} << code : 0;
}

std::uint8_t mtu_code(std::uint32_t bytes) noexcept {
  for (std::uint8_t code = 1; code <= 5; ++code)
    if (mtu_bytes(code) == bytes) return code;
  return 0;
}

}  // namespace rtrs::roce
