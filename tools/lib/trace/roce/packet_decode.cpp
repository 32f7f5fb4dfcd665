// Decodes a captured frame to a packet.
#include <algorithm>

#include "tools/lib/trace/roce/icrc.hpp"
#include "tools/lib/trace/roce/packet.hpp"

namespace rtrs::roce {
namespace {

constexpr std::uint8_t kUdp = 17;
constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kBthHeader = 12;

// Decodes the extended headers after the BTH. Returns the offset of the payload; 0 if the headers are
// truncated.
std::size_t parse_extended(Bytes ib, const HeaderSet& set, Packet& packet) noexcept {
  std::size_t at = kBthHeader;
  const std::size_t needed = at + (set.deth ? 8U : 0U) + (set.reth ? 16U : 0U) + (set.aeth ? 4U : 0U) +
                             (set.imm ? 4U : 0U) + (set.ieth ? 4U : 0U);
  if (ib.size() < needed) return 0;
  if (set.deth) {
    packet.qkey = load_be32(ib, at);
    packet.source_qp = load_be24(ib, at + 5);
    at += 8;
  }
  if (set.reth) {
    packet.remote_addr = load_be(ib, at, 8);
    packet.rkey = load_be32(ib, at + 8);
    packet.dma_length = load_be32(ib, at + 12);
    at += 16;
  }
  if (set.aeth) {
    packet.syndrome = load_be8(ib, at);
    packet.msn = load_be24(ib, at + 1);
    at += 4;
  }
  if (set.imm) {
    packet.imm = load_be32(ib, at);
    at += 4;
  }
  if (set.ieth) {
    packet.rkey = load_be32(ib, at);
    at += 4;
  }
  return at;
}

std::uint32_t load_icrc(Bytes bytes, std::size_t at) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = (value << 8) | load_be8(bytes, at + i);
  return value;
}

Decoded parse_transport(const IpPacket& ip, Packet& packet) {
  const Bytes whole = ip.bytes;
  const std::size_t bth = ip.header + kUdpHeader;
  if (ip.total < bth + kBthHeader + kIcrcBytes) return Decoded::malformed;
  const std::size_t end = ip.total - kIcrcBytes;  // end of the padded payload, on the wire
  const Bytes ib = whole.subspan(bth, std::min(whole.size(), end) - bth);
  if (ib.size() < kBthHeader) return Decoded::malformed;
  packet.opcode = static_cast<Opcode>(load_be8(ib, 0));
  const HeaderSet set = headers_of(packet.opcode);
  const std::uint8_t flags = load_be8(ib, 1);
  if (!set.known || (flags & 0xfU) != 0) return Decoded::malformed;
  packet.solicited = (flags & 0x80U) != 0;
  packet.pkey = load_be16(ib, 2);
  packet.dest_qp = load_be24(ib, 5);
  packet.ack_request = (load_be8(ib, 8) & 0x80U) != 0;
  packet.psn = load_be24(ib, 9);
  const std::size_t payload = parse_extended(ib, set, packet);
  const std::size_t padding = (flags >> 4) & 3U;
  if (payload == 0 || end < bth + payload + padding) return Decoded::malformed;
  const std::size_t wanted = end - bth - payload - padding;
  const std::size_t there = std::min(wanted, ib.size() - payload);
  packet.payload.assign(ib.begin() + static_cast<std::ptrdiff_t>(payload),
                        ib.begin() + static_cast<std::ptrdiff_t>(payload + there));
  packet.payload_cut = static_cast<std::uint32_t>(wanted - there);
  if (whole.size() >= ip.total) packet.bad_icrc = icrc(whole.first(end), ip.header) != load_icrc(whole, end);
  return Decoded::packet;
}

}  // namespace

Decoded decode(std::uint16_t link, Bytes frame, std::size_t original, Packet& packet) {
  const std::optional<IpPacket> ip = find_ip(link, frame, original);
  if (!ip || ip->protocol != kUdp || ip->bytes.size() < ip->header + kUdpHeader) return Decoded::other;
  if (load_be16(ip->bytes, ip->header + 2) != kUdpPort) return Decoded::other;
  if (!ip->complete || ip->bytes.size() < ip->header + kUdpHeader + kBthHeader) return Decoded::malformed;
  packet = Packet{};
  packet.source = ip->source;
  packet.destination = ip->destination;
  packet.source_port = load_be16(ip->bytes, ip->header);
  return parse_transport(*ip, packet);
}

}  // namespace rtrs::roce
