// CRC-32C (Castagnoli), as MPA, iSCSI and NVMe use it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rtrs {

// Returns the CRC of `size` bytes that follow bytes whose CRC is `crc`: crc32c(b, n, crc32c(a, m)) is the CRC
// of a followed by b. Uses the processor's CRC instruction if available.
std::uint32_t crc32c(const void* bytes, std::size_t size, std::uint32_t crc = 0) noexcept;

// Like crc32c(), but without the CRC instruction.
std::uint32_t crc32c_portable(const void* bytes, std::size_t size, std::uint32_t crc = 0) noexcept;

}  // namespace rtrs
