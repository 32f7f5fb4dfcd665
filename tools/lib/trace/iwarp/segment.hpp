// Decodes TCP segments of a capture.
#pragma once
#include <compare>
#include <cstdint>
#include <vector>

#include "tools/lib/trace/roce/ip.hpp"

namespace rtrs::iwarp_capture {

using roce::Address;
using roce::Bytes;

struct Endpoint {
  Address address;
  std::uint16_t port = 0;
  auto operator<=>(const Endpoint&) const = default;
};

struct Segment {
  Endpoint source;
  Endpoint destination;
  std::uint32_t sequence = 0;         // number of the first byte of the payload; of the SYN if `syn`
  std::uint32_t acknowledgement = 0;  // valid if `ack`
  bool syn = false;
  bool ack = false;
  bool fin = false;
  bool rst = false;
  std::uint32_t cut = 0;  // number of bytes at the end of the payload that are missing from the capture
  std::vector<std::byte> payload;
};

// Decodes a frame. `original`: length on the wire, in bytes; `frame` may be shorter. Returns false if it is
// not an unfragmented TCP segment with its whole header. Does not verify the checksum, which adapters compute
// after the capture.
[[nodiscard]] bool decode(std::uint16_t link, Bytes frame, std::size_t original, Segment& segment);

}  // namespace rtrs::iwarp_capture
