// Number encoding of traces: little-endian base 128, only the shortest form, so that equal values have equal
// bytes.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rtrs::trace {

inline constexpr std::size_t kMaxVarint = 10;  // in bytes

// Returns the end of the written bytes; `out` has room for kMaxVarint bytes.
inline std::uint8_t* put_varint(std::uint8_t* out, std::uint64_t value) noexcept {
  while (value >= 0x80) {
    *out++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

// Returns the end of the number, or null if it is truncated, overlong or above 64 bits.
inline const std::uint8_t* get_varint(const std::uint8_t* at, const std::uint8_t* end,
                                      std::uint64_t& value) noexcept {
  std::uint64_t result = 0;
  for (unsigned shift = 0; at != end && shift < 70; shift += 7) {
    const std::uint8_t byte = *at++;
    if (shift == 63 && byte > 1) return nullptr;
    result |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      if (byte == 0 && shift != 0) return nullptr;
      value = result;
      return at;
    }
  }
  return nullptr;
}

inline std::uint64_t zigzag(std::int64_t value) noexcept {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
inline std::int64_t unzigzag(std::uint64_t value) noexcept {
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}

}  // namespace rtrs::trace
