// Shrinks a failing run of the simulated world.
#pragma once
#include <cstdint>
#include <functional>

#include "sim/choices/shrink.hpp"
#include "tools/lib/choice_log/isolated_run.hpp"

namespace rtrs::tools {

struct ShrinkRunOptions {
  double seconds = 30;            // at most
  std::function<bool()> stopped;  // as if that were over; may be empty
  std::function<void(const sim::LogSize&, std::uint64_t runs)> progress;  // may be empty
};
struct ShrunkRun {
  IsolatedResult first;  // the run as it was
  IsolatedResult last;   // the smallest that fails in the same way
  sim::ShrinkResult shrunk;
  double seconds = 0;
};
// `world.seed` and what else the world is made of stay; `choice` makes the choices of the failing run. When
// that run does not fail, `first.failed` is false and nothing else is done.
ShrunkRun shrink_run(IsolatedRunner&, const sim::WorldOptions& world, const MakeChoice& choice,
                     const ShrinkRunOptions&);

}  // namespace rtrs::tools
