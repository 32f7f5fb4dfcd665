// Reads and writes big-endian numbers, as in RoCE headers and CM messages.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace rtrs::roce {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// Returns the big-endian number of `width` bytes (1 to 8) at `at`. Precondition: at + width <= size.
[[nodiscard]] constexpr std::uint64_t load_be(Bytes from, std::size_t at, std::size_t width) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < width; ++i) value = (value << 8) | std::to_integer<std::uint64_t>(from[at + i]);
  return value;
}
constexpr void store_be(MutableBytes to, std::size_t at, std::size_t width, std::uint64_t value) noexcept {
  for (std::size_t i = width; i-- > 0; value >>= 8) to[at + i] = static_cast<std::byte>(value & 0xffU);
}

[[nodiscard]] constexpr std::uint8_t load_be8(Bytes from, std::size_t at) noexcept {
  return static_cast<std::uint8_t>(load_be(from, at, 1));
}
[[nodiscard]] constexpr std::uint16_t load_be16(Bytes from, std::size_t at) noexcept {
  return static_cast<std::uint16_t>(load_be(from, at, 2));
}
[[nodiscard]] constexpr std::uint32_t load_be24(Bytes from, std::size_t at) noexcept {
  return static_cast<std::uint32_t>(load_be(from, at, 3));
}
[[nodiscard]] constexpr std::uint32_t load_be32(Bytes from, std::size_t at) noexcept {
  return static_cast<std::uint32_t>(load_be(from, at, 4));
}

}  // namespace rtrs::roce
