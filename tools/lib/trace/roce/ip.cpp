#include "tools/lib/trace/roce/ip.hpp"

#include <arpa/inet.h>

#include <algorithm>

namespace rtrs::roce {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::uint16_t kEthertypeIpv4 = 0x0800;
constexpr std::uint16_t kEthertypeIpv6 = 0x86dd;
constexpr std::size_t kIpv4Header = 20;
constexpr std::size_t kIpv6Header = 40;
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

// Decodes the IP header at the start of `ip.bytes`. Returns false if there is none, or if the packet is a
// fragment.
bool parse_header(IpPacket& ip) noexcept {
  const Bytes bytes = ip.bytes;
  if (bytes.size() < kIpv4Header) return false;
  const unsigned version = load_be8(bytes, 0) >> 4;
  if (version == 4) {
    ip.header = (load_be8(bytes, 0) & 0xfU) * 4;
    ip.total = load_be16(bytes, 2);
    ip.protocol = load_be8(bytes, 9);
    ip.source = ipv4(load_be8(bytes, 12), load_be8(bytes, 13), load_be8(bytes, 14), load_be8(bytes, 15));
    ip.destination = ipv4(load_be8(bytes, 16), load_be8(bytes, 17), load_be8(bytes, 18), load_be8(bytes, 19));
    return ip.header >= kIpv4Header && (load_be16(bytes, 6) & 0x3fff) == 0;
  }
  if (version != 6 || bytes.size() < kIpv6Header) return false;
  const std::size_t payload = load_be16(bytes, 4);
  ip.header = kIpv6Header;
  ip.total = payload == 0 ? 0 : kIpv6Header + payload;
  ip.protocol = load_be8(bytes, 6);
  for (std::size_t i = 0; i < 16; ++i) ip.source.bytes[i] = load_be8(bytes, 8 + i);
  for (std::size_t i = 0; i < 16; ++i) ip.destination.bytes[i] = load_be8(bytes, 24 + i);
  return true;
}

}  // namespace

bool Address::is_ipv4() const noexcept {
  return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

Address ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) noexcept {
  Address address;
  std::copy(kMapped.begin(), kMapped.end(), address.bytes.begin());
  address.bytes[12] = a;
  address.bytes[13] = b;
  address.bytes[14] = c;
  address.bytes[15] = d;
  return address;
}

std::string to_string(const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  const bool four = address.is_ipv4();
  ::inet_ntop(four ? AF_INET : AF_INET6, address.bytes.data() + (four ? kMapped.size() : 0), text,
              sizeof text);
  return text;
}

bool readable_link(std::uint16_t link) noexcept {
  switch (link) {
    case link_null:
    case link_ethernet:
    case link_raw:
    case link_cooked:
    case link_ipv4:
    case link_ipv6:
    case link_cooked2:
      return true;
    default:
      return false;
  }
}

std::optional<IpPacket> find_ip(std::uint16_t link, Bytes frame, std::size_t original) {
  const std::size_t at = ip_offset(link, frame);
  if (at == kNotIp || at >= frame.size()) return std::nullopt;
  IpPacket ip;
  ip.bytes = frame.subspan(at);
  if (!parse_header(ip)) return std::nullopt;
  // A host that leaves segmentation to its adapter has packets longer than 64 KiB in its captures, with
  // length 0.
  if (ip.total == 0) ip.total = std::max(original, frame.size()) - at;
  if (ip.total < ip.header || ip.bytes.size() < ip.header) return std::nullopt;
  ip.complete = original >= at + ip.total;
  ip.bytes = ip.bytes.first(std::min(ip.bytes.size(), ip.total));  // removes the padding of short frames
  return ip;
}

}  // namespace rtrs::roce
