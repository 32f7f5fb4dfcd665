#pragma once

namespace rtrs {

// Counters that ride along with a state but do not steer it: two states that differ only in them are equal.
template <class T>
struct Uncompared : T {
  friend constexpr bool operator==(const Uncompared&, const Uncompared&) noexcept { return true; }
};

}  // namespace rtrs
