// Finds the IP packet in a captured frame.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "tools/lib/trace/roce/big_endian.hpp"

namespace rtrs::roce {

// IPv6 address. IPv4 addresses are mapped: ::ffff:a.b.c.d.
struct Address {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Address&) const = default;
  [[nodiscard]] bool is_ipv4() const noexcept;
};
[[nodiscard]] Address ipv4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d) noexcept;
[[nodiscard]] std::string to_string(const Address&);

// Supported link types of captures, with the numbers of pcap.
enum LinkType : std::uint16_t {
  link_null = 0,
  link_ethernet = 1,
  link_raw = 101,
  link_cooked = 113,
  link_ipv4 = 228,
  link_ipv6 = 229,
  link_cooked2 = 276,
};
[[nodiscard]] bool readable_link(std::uint16_t link) noexcept;

// An unfragmented IP packet. `bytes` begins with the IP header and ends at the end of the packet, or where
// the capture cut the frame.
struct IpPacket {
  std::uint8_t protocol = 0;
  std::size_t header = 0;  // length of the IP header in bytes, at most bytes.size()
  std::size_t total = 0;   // length on the wire in bytes, with the header
  bool complete = true;    // the frame on the wire had `total` bytes
  Address source;
  Address destination;
  Bytes bytes;
};
// `original`: length of the frame on the wire, in bytes; `frame` may be shorter. Returns nullopt if there is
// no whole IP header, or if the packet is a fragment.
[[nodiscard]] std::optional<IpPacket> find_ip(std::uint16_t link, Bytes frame, std::size_t original);

}  // namespace rtrs::roce
