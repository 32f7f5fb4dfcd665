// Shrinks a failing run of the simulated world.
#pragma once
#include <cstdint>
#include <functional>

#include "sim/choices/shrink.hpp"
#include "tools/lib/trace/choice_log/isolated_run.hpp"

namespace rtrs::tools {

struct ShrinkRunOptions {
  double seconds = 30;            // maximum duration
  std::function<bool()> stopped;  // returns true to stop early; may be empty
  std::function<void(const sim::LogSize&, std::uint64_t runs)> progress;  // may be empty
  // Accepts only runs that also satisfy this; may be empty.
  std::function<bool(const IsolatedResult&)> accepts;
};
struct ShrunkRun {
  IsolatedResult first;  // original run
  IsolatedResult last;   // smallest run with the same failure
  sim::ShrinkResult shrunk;
  double seconds = 0;
};
// Shrinks only the choices; `world` (with its seed) stays unchanged. `choice` repeats the choices of the
// failing run. If that run does not fail this time, `first.failed` is false.
ShrunkRun shrink_run(IsolatedRunner&, const sim::WorldOptions& world, const MakeChoice& choice,
                     const ShrinkRunOptions&);

}  // namespace rtrs::tools
