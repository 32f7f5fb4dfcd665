// What a stream asks of the memory of its end.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/iwarp/fault.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::iwarp {

// Implemented by the backend, which knows keys and receives. Called only from within feed() and placed(), on
// the same thread; must not call the stream.
class Memory {
 public:
  virtual ~Memory() = default;

  // May the peer of this connection write `n` octets (1 to 65521) at the tagged offset `to` of the key now?
  // Fault::none: yes, and `place` is exactly those `n` octets. Else unknown_key, foreign_key, out_of_bounds
  // or offset_wraps, and `place` is not used. judge_range() has the arithmetic. Asked for each segment with
  // payload, and again before every further octet once the stream was told key_died().
  virtual Fault resolve(std::uint32_t key, std::uint64_t to, std::size_t n, MutableBytes& place) noexcept = 0;

  // Takes the oldest posted receive; each SEND and each immediate takes one, at its first segment. Receives
  // of no octets are good for immediates and empty SENDs. Nothing where none is posted: the stream stalls and
  // asks again in the next feed(). The memory stays the stream's until the message is delivered or the stream
  // is given up.
  virtual std::optional<MutableBytes> take_receive() noexcept = 0;

  // A SEND with invalidate of this key is whole. Fault::none: the key was offered on this connection for
  // that, and is dead from now on. Else Fault::bad_invalidation.
  virtual Fault invalidate(std::uint32_t key) noexcept = 0;
};

// Are the `n` octets at `to` inside the `length` octets at `base`? none, out_of_bounds or offset_wraps. No
// sum of the peer's numbers is made.
[[nodiscard]] constexpr Fault judge_range(std::uint64_t to, std::uint64_t n, std::uint64_t base,
                                          std::uint64_t length) noexcept {
  if (n != 0 && n - 1 > ~std::uint64_t{0} - to) return Fault::offset_wraps;
  if (to < base) return Fault::out_of_bounds;
  const std::uint64_t offset = to - base;
  return offset <= length && n <= length - offset ? Fault::none : Fault::out_of_bounds;
}

}  // namespace rtrs::iwarp
