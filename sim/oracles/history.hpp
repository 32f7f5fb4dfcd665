// O4: each sector is a register that is written at least once. A write may take effect several times (it is
// sent again after a failover) between its invocation and the end of its window; an acknowledged one took
// effect at least once before its answer. Times are any numbers that grow with the events, no two equal.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace rtrs::sim {

using Tick = std::uint64_t;
inline constexpr Tick kOpenEnd = std::numeric_limits<Tick>::max();

struct RegisterWrite {
  std::uint32_t value = 0;  // of its own; 0 is the initial content
  Tick invoked = 0;
  Tick answered = kOpenEnd;  // of an acknowledged write; others promise nothing
  Tick window_end = kOpenEnd;
};
struct RegisterRead {
  std::uint32_t value = 0;
  Tick invoked = 0;
  Tick answered = 0;
};

// Null when some order of effects explains all reads, else why not. Exact; O(n log n).
const char* broken_register(std::span<const RegisterWrite>, std::span<const RegisterRead>);

}  // namespace rtrs::sim
