// The invariant CRC at the end of every RoCEv2 packet: over all that routers leave alone.
#pragma once
#include <cstdint>

#include "tools/lib/trace/roce/big_endian.hpp"

namespace rtrs::roce {

inline constexpr std::size_t kIcrcBytes = 4;

// `ip` starts at the IPv4 or IPv6 header of `ip_header` bytes and ends before the ICRC. The value as the four
// bytes of the packet hold it, least significant first. Precondition: `ip` holds the IP, UDP (8 bytes) and
// BTH (12 bytes) headers.
[[nodiscard]] std::uint32_t icrc(Bytes ip, std::size_t ip_header) noexcept;

}  // namespace rtrs::roce
