// CRC-32C (Castagnoli), as MPA, iSCSI and NVMe use it.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rtrs {

// Continue with the result of the bytes before: crc32c(b, n, crc32c(a, m)) is that of a followed by b.
// By the instruction of the processor where there is one.
std::uint32_t crc32c(const void* bytes, std::size_t size, std::uint32_t crc = 0) noexcept;

// The same without that instruction.
std::uint32_t crc32c_portable(const void* bytes, std::size_t size, std::uint32_t crc = 0) noexcept;

}  // namespace rtrs
