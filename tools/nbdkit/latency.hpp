// How long requests took: before any path was lost, while one was missing, and after all were back.
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
  // `all_connected`: of the paths that should be.
  void set_paths(bool all_connected, bool any_lost) noexcept {
    if (any_lost) {
      phase_ = Phase::during;
    } else if (phase_ == Phase::during && all_connected) {
      phase_ = Phase::after;
    }
  }
  Phase phase() const noexcept { return phase_; }
  // A request counts for the worst phase that it saw: one that waited for a path counts as during.
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
