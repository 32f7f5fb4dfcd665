#pragma once

namespace rtrs {

// Counters stored with a state that do not affect its behaviour: two states that differ only in them are
// equal.
template <class T>
struct Uncompared : T {
  friend constexpr bool operator==(const Uncompared&, const Uncompared&) noexcept { return true; }
};

}  // namespace rtrs
