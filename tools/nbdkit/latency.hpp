// Latency of requests in three phases: before the first path was lost, while a path was lost, and after all
// paths had reconnected.
#pragma once
#include <array>
#include <cstdint>

#include "core/proto/ids.hpp"
#include "tools/lib/latency/histogram.hpp"

namespace rtrs::nbdkit {

enum class Phase : std::uint8_t { before, during, after };
constexpr const char* to_string(Phase phase) noexcept {
  return phase == Phase::before ? "before" : phase == Phase::during ? "during" : "after";
}

class LatencyByPhase {
 public:
  // `all_connected`: every path that should be connected is connected.
  void set_paths(bool all_connected, bool any_lost) noexcept {
    if (any_lost) {
      phase_ = Phase::during;
    } else if (phase_ == Phase::during && all_connected) {
      phase_ = Phase::after;
    }
  }
  Phase phase() const noexcept { return phase_; }
  // Records a completed request. A request that started or ended in the phase `during` counts for that phase,
  // any other for the current phase.
  void add(Phase began, Nanos latency) noexcept {
    const bool crossed = began == Phase::during || phase_ == Phase::during;
    of_[static_cast<unsigned>(crossed ? Phase::during : phase_)].record(latency);
  }
  const tools::Histogram& of(Phase phase) const noexcept { return of_[static_cast<unsigned>(phase)]; }

 private:
  std::array<tools::Histogram, 3> of_;
  Phase phase_ = Phase::before;
};

}  // namespace rtrs::nbdkit
