#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>

/// Little-endian loads and stores over byte spans. Every RTRS and RNBD integer is little-endian and none is
/// aligned, so nothing here ever reinterprets memory. Stateless; safe from any thread.
namespace rtrs::wire {

/// Borrowed bytes: never owned, valid only for the duration of the call they are passed to.
using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

/// 16 opaque bytes in wire order. RTRS never interprets their UUID fields.
struct Uuid {
  std::array<std::uint8_t, 16> bytes{};
  auto operator<=>(const Uuid&) const = default;
};

// Preconditions of every load and store: `at + width <= size`. Callers check lengths once a message, not once
// a field.

[[nodiscard]] constexpr std::uint8_t load_u8(Bytes from, std::size_t at) noexcept {
  return std::to_integer<std::uint8_t>(from[at]);
}

[[nodiscard]] constexpr std::uint16_t load_le16(Bytes from, std::size_t at) noexcept {
  return static_cast<std::uint16_t>(load_u8(from, at) | (load_u8(from, at + 1) << 8));
}

[[nodiscard]] constexpr std::uint32_t load_le32(Bytes from, std::size_t at) noexcept {
  return static_cast<std::uint32_t>(load_le16(from, at)) |
         (static_cast<std::uint32_t>(load_le16(from, at + 2)) << 16);
}

[[nodiscard]] constexpr std::uint64_t load_le64(Bytes from, std::size_t at) noexcept {
  return static_cast<std::uint64_t>(load_le32(from, at)) |
         (static_cast<std::uint64_t>(load_le32(from, at + 4)) << 32);
}

constexpr void store_u8(MutableBytes to, std::size_t at, std::uint8_t value) noexcept {
  to[at] = static_cast<std::byte>(value);
}

constexpr void store_le16(MutableBytes to, std::size_t at, std::uint16_t value) noexcept {
  store_u8(to, at, static_cast<std::uint8_t>(value & 0xffU));
  store_u8(to, at + 1, static_cast<std::uint8_t>(value >> 8));
}

constexpr void store_le32(MutableBytes to, std::size_t at, std::uint32_t value) noexcept {
  store_le16(to, at, static_cast<std::uint16_t>(value & 0xffffU));
  store_le16(to, at + 2, static_cast<std::uint16_t>(value >> 16));
}

constexpr void store_le64(MutableBytes to, std::size_t at, std::uint64_t value) noexcept {
  store_le32(to, at, static_cast<std::uint32_t>(value & 0xffffffffU));
  store_le32(to, at + 4, static_cast<std::uint32_t>(value >> 32));
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
