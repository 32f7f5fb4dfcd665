// Computes the invariant CRC at the end of a RoCEv2 packet. The CRC covers all fields that routers do not
// change.
#pragma once
#include <cstdint>

#include "tools/lib/trace/roce/big_endian.hpp"

namespace rtrs::roce {

inline constexpr std::size_t kIcrcBytes = 4;

// Returns the ICRC; the packet contains it in little-endian order. `ip`: from the IPv4 or IPv6 header, which
// has `ip_header` bytes, to the byte before the ICRC. Precondition: `ip` contains the IP, UDP (8 bytes) and
// BTH (12 bytes) headers.
[[nodiscard]] std::uint32_t icrc(Bytes ip, std::size_t ip_header) noexcept;

}  // namespace rtrs::roce
