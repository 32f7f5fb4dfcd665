// Monotonic time and delays, as all layers use them.
#pragma once
#include <cstdint>

namespace rtrs {

// Monotonic time in nanoseconds since an origin that the caller chooses. Never wall-clock time.
using Nanos = std::uint64_t;
inline constexpr Nanos kNever = ~Nanos{0};
constexpr Nanos microseconds(std::uint64_t n) {
  return n * 1'000;
}
constexpr Nanos milliseconds(std::uint64_t n) {
  return n * 1'000'000;
}
constexpr Nanos seconds(std::uint64_t n) {
  return n * 1'000'000'000;
}
// Returns the time `delay` after `start`. Saturates to kNever, so that a delay of kNever never ends.
constexpr Nanos later(Nanos start, Nanos delay) {
  return delay > kNever - start ? kNever : start + delay;
}

}  // namespace rtrs
