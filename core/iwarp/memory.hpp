// Interface through which a stream accesses local memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/iwarp/fault.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::iwarp {

// Implemented by the backend, which manages keys and receives. Called only from within feed() and placed(),
// on the same thread. Must not call the stream.
class Memory {
 public:
  virtual ~Memory() = default;

  // Checks whether the peer of this connection may now write `n` bytes (1 to 65521) at tagged offset `to` of
  // the key. Returns Fault::none and sets `place` to exactly those `n` bytes if so. Otherwise returns
  // unknown_key, foreign_key, out_of_bounds or offset_wraps; `place` is then ignored. Use judge_range() for
  // the arithmetic. Called for each segment with payload, and again before any further byte after key_died()
  // was called on the stream.
  virtual Fault resolve(std::uint32_t key, std::uint64_t to, std::size_t n, MutableBytes& place) noexcept = 0;

  // Takes the oldest posted receive. Each SEND and each immediate takes one at its first segment. Receives of
  // 0 bytes fit immediates and empty SENDs. Returns nullopt if no receive is posted; the stream then stalls
  // and asks again in the next feed(). The stream uses the memory until the message is delivered or the
  // stream is destroyed.
  virtual std::optional<MutableBytes> take_receive() noexcept = 0;

  // Called when a SEND with invalidate of this key is complete. Returns Fault::none if the key was offered on
  // this connection for remote invalidation, and invalidates it. Otherwise returns Fault::bad_invalidation.
  virtual Fault invalidate(std::uint32_t key) noexcept = 0;
};

// Checks that the `n` bytes at `to` are inside the `length` bytes at `base`. Returns none, out_of_bounds or
// offset_wraps. Never adds up numbers from the peer, so no sum can overflow.
[[nodiscard]] constexpr Fault judge_range(std::uint64_t to, std::uint64_t n, std::uint64_t base,
                                          std::uint64_t length) noexcept {
  if (n != 0 && n - 1 > ~std::uint64_t{0} - to) return Fault::offset_wraps;
  if (to < base) return Fault::out_of_bounds;
  const std::uint64_t offset = to - base;
  return offset <= length && n <= length - offset ? Fault::none : Fault::out_of_bounds;
}

}  // namespace rtrs::iwarp
