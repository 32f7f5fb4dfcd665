// The clock of a simulated process.
#pragma once
#include <cstdint>

#include "core/proto/ids.hpp"

namespace rtrs::sim {

// Rate of a process clock: `num` / `den` of true time, from 1/4 to 4.
struct ClockRate {
  std::uint32_t num = 1, den = 1;
  Nanos local_time(Nanos world) const noexcept {
    if (num == den) return world;  // true for most clocks; avoids the slow divisions
    return world / den * num + world % den * num / den;
  }
  // Returns the earliest true time at which the clock shows `local`.
  Nanos true_time(Nanos local) const noexcept {
    if (num == den || local >= kNever / 4) return local;
    return local / num * den + (local % num * den + num - 1) / num;
  }
  // Maximum rounding error of a few conversions, in ns.
  Nanos rounding() const noexcept { return num == den ? 0 : 100; }
  bool operator==(const ClockRate&) const = default;
};

}  // namespace rtrs::sim
