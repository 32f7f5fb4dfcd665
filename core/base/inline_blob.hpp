// Bytes or text of bounded length. An event stores them in itself, because an event in the recorder's ring
// cannot refer to other memory.
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace rtrs {

// `Unit`: std::byte for bytes, char for UTF-8 text.
template <class Unit, std::size_t Capacity>
struct InlineBlob {
  using Length = std::conditional_t<Capacity <= 0xff, std::uint8_t, std::uint16_t>;
  static constexpr std::size_t kCapacity = Capacity;
  static constexpr bool kIsText = std::is_same_v<Unit, char>;
  static_assert(Capacity <= 0xffff && sizeof(Unit) == 1);

  std::array<Unit, Capacity> units{};
  Length length = 0;

  constexpr InlineBlob() noexcept = default;
  // Copies the range, truncated to the capacity.
  template <class Range>
  requires requires(const Range& from) {
    { from.data() } -> std::convertible_to<const Unit*>;
    { from.size() } -> std::convertible_to<std::size_t>;
  }
  InlineBlob(const Range& from) noexcept { assign(from.data(), from.size()); }

  // Truncates to the capacity.
  void assign(const void* from, std::size_t size) noexcept {
    length = static_cast<Length>(std::min(size, Capacity));
    if (length != 0) std::memcpy(units.data(), from, length);
  }
  [[nodiscard]] std::size_t size() const noexcept { return length; }
  [[nodiscard]] std::string_view view() const noexcept {
    return {reinterpret_cast<const char*>(units.data()), length};
  }
  [[nodiscard]] std::span<const Unit> span() const noexcept { return std::span(units).first(length); }
};

template <std::size_t Capacity>
using InlineBytes = InlineBlob<std::byte, Capacity>;
template <std::size_t Capacity>
using InlineText = InlineBlob<char, Capacity>;

template <class T>
concept IsInlineBlob = requires {
  { T::kIsText } -> std::convertible_to<bool>;
  { T::kCapacity } -> std::convertible_to<std::size_t>;
};

}  // namespace rtrs
