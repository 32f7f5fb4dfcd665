#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

/// Little-endian loads and stores over byte spans. All integers of RTRS and RNBD are little-endian and may be
/// unaligned, so no function casts pointers. Thread-safe.
namespace rtrs::wire {

/// Borrowed bytes: never owned, and valid only during the call that receives them.
using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

/// 16 opaque bytes in wire order. RTRS never interprets the fields of the UUID.
struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Uuid&) const = default;
};

// Preconditions of every load and store: `at + width <= size`. Callers check the length once per message, not
// per field.

[[nodiscard]] constexpr std::uint8_t load_u8(Bytes from, std::size_t at) noexcept {
  return std::to_integer<std::uint8_t>(from[at]);
}

/// Loads an integer of `sizeof(T)` bytes. A single load instruction on little-endian processors.
template <class T>
[[nodiscard]] constexpr T load_le(Bytes from, std::size_t at) noexcept {
  T value = 0;
  if (!std::is_constant_evaluated() && std::endian::native == std::endian::little) {
    std::memcpy(&value, from.data() + at, sizeof(T));
  } else {
    for (std::size_t i = sizeof(T); i > 0; --i)
      value = static_cast<T>((value << 8U) | std::to_integer<T>(from[at + i - 1]));
  }
  return value;
}
[[nodiscard]] constexpr std::uint16_t load_le16(Bytes from, std::size_t at) noexcept {
  return load_le<std::uint16_t>(from, at);
}
[[nodiscard]] constexpr std::uint32_t load_le32(Bytes from, std::size_t at) noexcept {
  return load_le<std::uint32_t>(from, at);
}
[[nodiscard]] constexpr std::uint64_t load_le64(Bytes from, std::size_t at) noexcept {
  return load_le<std::uint64_t>(from, at);
}

constexpr void store_u8(MutableBytes to, std::size_t at, std::uint8_t value) noexcept {
  to[at] = static_cast<std::byte>(value);
}

template <class T>
constexpr void store_le(MutableBytes to, std::size_t at, T value) noexcept {
  if (!std::is_constant_evaluated() && std::endian::native == std::endian::little) {
    std::memcpy(to.data() + at, &value, sizeof(T));
  } else {
    for (std::size_t i = 0; i < sizeof(T); ++i) to[at + i] = static_cast<std::byte>(value >> (8U * i));
  }
}
constexpr void store_le16(MutableBytes to, std::size_t at, std::uint16_t value) noexcept {
  store_le(to, at, value);
}
constexpr void store_le32(MutableBytes to, std::size_t at, std::uint32_t value) noexcept {
  store_le(to, at, value);
}
constexpr void store_le64(MutableBytes to, std::size_t at, std::uint64_t value) noexcept {
  store_le(to, at, value);
}

[[nodiscard]] constexpr Uuid load_uuid(Bytes from, std::size_t at) noexcept {
  Uuid uuid;
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) uuid.bytes[i] = load_u8(from, at + i);
  return uuid;
}

constexpr void store_uuid(MutableBytes to, std::size_t at, const Uuid& uuid) noexcept {
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) store_u8(to, at + i, uuid.bytes[i]);
}

constexpr void store_zeros(MutableBytes to) noexcept {
  for (std::byte& byte : to) byte = std::byte{0};
}

}  // namespace rtrs::wire
