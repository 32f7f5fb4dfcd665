// Decodes a captured frame to a packet.
#include <algorithm>

#include "tools/lib/trace/roce/icrc.hpp"
#include "tools/lib/trace/roce/packet.hpp"

namespace rtrs::roce {
namespace {

constexpr std::uint16_t kEthertypeIpv4 = 0x0800;
constexpr std::uint16_t kEthertypeIpv6 = 0x86dd;
constexpr std::size_t kUdpHeader = 8;
constexpr std::size_t kBthHeader = 12;
constexpr std::size_t kNotIp = ~std::size_t{0};

// Returns the offset of the byte after the Ethernet header and its VLAN tags; kNotIp if the frame has no IP
// packet.
std::size_t behind_ethernet(Bytes frame) noexcept {
  std::size_t at = 12;
  while (at + 2 <= frame.size()) {
    const std::uint16_t type = load_be16(frame, at);
    at += 2;
    if (type == kEthertypeIpv4 || type == kEthertypeIpv6) return at;
    if (type != 0x8100 && type != 0x88a8) return kNotIp;
    at += 2;
  }
  return kNotIp;
}

std::size_t ip_offset(std::uint16_t link, Bytes frame) noexcept {
  switch (link) {
    case link_ethernet:
      return behind_ethernet(frame);
    case link_cooked:
      return 16;
    case link_cooked2:
      return 20;
    case link_null:
      return 4;
    case link_raw:
    case link_ipv4:
    case link_ipv6:
      return 0;
    default:
      return kNotIp;
  }
}

struct Ip {
  std::size_t header = 0;  // length of the IP header, in bytes
  std::size_t total = 0;   // length of the packet with its IP header, in bytes
  Address source;
  Address destination;
};

// Returns false if `bytes` does not begin with an unfragmented IP packet that carries UDP.
bool parse_ip(Bytes bytes, Ip& ip) noexcept {
  if (bytes.size() < 20) return false;
  if (load_be8(bytes, 0) >> 4 == 4) {
    ip.header = (load_be8(bytes, 0) & 0xfU) * 4;
    ip.total = load_be16(bytes, 2);
    if (load_be8(bytes, 9) != 17 || (load_be16(bytes, 6) & 0x3fff) != 0) return false;
    ip.source = ipv4(load_be8(bytes, 12), load_be8(bytes, 13), load_be8(bytes, 14), load_be8(bytes, 15));
    ip.destination = ipv4(load_be8(bytes, 16), load_be8(bytes, 17), load_be8(bytes, 18), load_be8(bytes, 19));
    return ip.header >= 20;
  }
  if (load_be8(bytes, 0) >> 4 != 6 || bytes.size() < 40 || load_be8(bytes, 6) != 17) return false;
  ip.header = 40;
  ip.total = std::size_t{40} + load_be16(bytes, 4);
  for (std::size_t i = 0; i < 16; ++i) ip.source.bytes[i] = load_be8(bytes, 8 + i);
  for (std::size_t i = 0; i < 16; ++i) ip.destination.bytes[i] = load_be8(bytes, 24 + i);
  return true;
}

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

Decoded parse_transport(Bytes whole, const Ip& ip, Packet& packet) {
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
  const std::size_t at = ip_offset(link, frame);
  Ip ip;
  if (at == kNotIp || at >= frame.size() || !parse_ip(frame.subspan(at), ip)) return Decoded::other;
  Bytes whole = frame.subspan(at);
  if (whole.size() < ip.header + kUdpHeader) return Decoded::other;
  if (load_be16(whole, ip.header + 2) != kUdpPort) return Decoded::other;
  if (original < at + ip.total) return Decoded::malformed;
  whole = whole.first(std::min(whole.size(), ip.total));  // removes the padding of short frames
  if (whole.size() < ip.header + kUdpHeader + kBthHeader) return Decoded::malformed;
  packet = Packet{};
  packet.source = ip.source;
  packet.destination = ip.destination;
  packet.source_port = load_be16(whole, ip.header);
  return parse_transport(whole, ip, packet);
}

}  // namespace rtrs::roce
