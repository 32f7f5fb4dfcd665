// O4: each sector behaves as a register with at-least-once writes. A write may take effect several times (it
// is resent after a failover) between its invocation and the end of its window; an acknowledged write took
// effect at least once before its response. Ticks increase with each event, and no two are equal.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace rtrs::sim {

using Tick = std::uint64_t;
inline constexpr Tick kOpenEnd = std::numeric_limits<Tick>::max();

struct RegisterWrite {
  std::uint32_t value = 0;  // unique per write; 0 is the initial content
  Tick invoked = 0;
  Tick answered = kOpenEnd;  // response of an acknowledged write; kOpenEnd for others
  Tick window_end = kOpenEnd;
};
struct RegisterRead {
  std::uint32_t value = 0;
  Tick invoked = 0;
  Tick answered = 0;
};

// Returns nullptr if some order of effects explains all reads; otherwise why no order does. Exact; O(n log
// n).
const char* broken_register(std::span<const RegisterWrite>, std::span<const RegisterRead>);

}  // namespace rtrs::sim
