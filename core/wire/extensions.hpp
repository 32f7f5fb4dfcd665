/// Protocol extensions of urtrs, one bit each (protocol.md, section 12). The client offers them in byte 45 of
/// CON_REQ, which a kernel peer sends as 0; the server grants a subset in its response.
#pragma once
#include <cstdint>

namespace rtrs::wire {

/// Set of extensions. Unknown bits from a peer are kept but never granted.
enum class Extensions : std::uint8_t {
  none = 0,
  fence = 0x1,
  generation = 0x2,
  probe = 0x4,              ///< heartbeats on every connection
  keys_stay = 0x8,          ///< READs with NEED_INVAL complete without SEND_WITH_INV
  data_with_answer = 0x10,  ///< the response of a READ is the write that carries its data
  key_proof = 0x20,         ///< both ends prove that they have the same shared key (key_proof.hpp)
};

constexpr Extensions operator|(Extensions a, Extensions b) noexcept {
  return static_cast<Extensions>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr Extensions operator&(Extensions a, Extensions b) noexcept {
  return static_cast<Extensions>(static_cast<std::uint8_t>(a) & static_cast<std::uint8_t>(b));
}
constexpr Extensions operator^(Extensions a, Extensions b) noexcept {
  return static_cast<Extensions>(static_cast<std::uint8_t>(a) ^ static_cast<std::uint8_t>(b));
}
constexpr Extensions operator~(Extensions a) noexcept {
  return static_cast<Extensions>(~static_cast<std::uint8_t>(a));
}
constexpr Extensions& operator|=(Extensions& a, Extensions b) noexcept {
  return a = a | b;
}
constexpr Extensions& operator&=(Extensions& a, Extensions b) noexcept {
  return a = a & b;
}
constexpr Extensions& operator^=(Extensions& a, Extensions b) noexcept {
  return a = a ^ b;
}

/// True if `set` contains at least one of `some`.
constexpr bool has(Extensions set, Extensions some) noexcept {
  return (set & some) != Extensions::none;
}

/// Extensions that the session state machines can use. key_proof is excluded: the layer between them and the
/// fabric (core/keyed) offers and grants it.
inline constexpr Extensions kKnownExtensions = Extensions::fence | Extensions::generation |
                                               Extensions::probe | Extensions::keys_stay |
                                               Extensions::data_with_answer;

}  // namespace rtrs::wire
