#pragma once

namespace rtrs {

// Wraps counters that are stored with a state but do not affect it: two states that differ only in such
// counters are equal.
template <class T>
struct Uncompared : T {
  friend constexpr bool operator==(const Uncompared&, const Uncompared&) noexcept { return true; }
};

}  // namespace rtrs
