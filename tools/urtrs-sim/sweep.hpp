// Runs many seeds in parallel worker processes, so that a seed that crashes its process is reported like any
// other failure.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/world/world.hpp"
#include "tools/urtrs-sim/seed_range.hpp"
#include "tools/urtrs-sim/sweep_state.hpp"

namespace rtrs::sim_tool {

class FailurePipe;
struct SweepResult;

struct SweepOptions {
  SeedRange seeds;
  unsigned jobs = 1;
  double time_limit = 0;                     // time limit in seconds; 0: none
  unsigned determinism_percent = 1;          // percentage of seeds that are run twice
  bool specification = false;                // check every run against the specification
  bool block_devices = false;                // also run a world with block devices for one seed in eight
  bool over_tcp = false;                     // see sim::Scenario
  sim::MakeNet make_net = nullptr;           // see sim::WorldOptions
  bool replay = false;                       // also replay the traces of seeds that are run twice
  bool quiet = false;                        // print only the verdict
  bool summary = true;                       // print a summary
  bool hash_only = false;                    // print only one hash over all seeds
  const sim::FaultFilter* filter = nullptr;  // enabled faults; null: all; not owned
  std::string filter_text;   // fault options for the command line that repeats a run: " --without ghosts"
  std::string traces = ".";  // folder for the traces of a failing seed
  std::string artifacts;     // folder for the files of artifacts.hpp; empty: write only traces
  std::string histories;     // existing folder for the histories of all worlds; empty: none
  std::vector<sim::Oracle> excused;  // see sim::WorldOptions
  // Receives the totals. A failing seed is then recorded and does not end the sweep, and nothing depends on
  // how a range is divided. Not owned; null: the sweep ends at the first failure.
  SweepResult* result = nullptr;
  const FailurePipe* failures = nullptr;  // set by sweep() if there is a `result`; not owned
  SweepState* state = nullptr;            // updated during the sweep; not owned; null: none
  // Returns the command that continues with the given seeds, such as "urtrs-sim sweep --seeds 7..9". May be
  // empty.
  std::function<std::string(SeedRange)> go_on;
};
// What the seeds of a sweep have reached (coverage).
struct SweepTotals {
  std::uint64_t seeds = 0;
  std::array<std::uint64_t, sim::kMarks> marks{};          // number of seeds that reached each mark
  std::array<std::uint64_t, sim::kFaultClasses> faults{};  // how often each timed fault struck
  // Number of seeds by path states: [client state][server state].
  std::array<std::array<std::uint64_t, sim::kPathStates>, sim::kPathStates> pairs{};
};
// Runs the sweep and returns the exit code. `totals` may be null. With a `result`, kOk means that it is
// complete, whether seeds failed or not.
int sweep(const SweepOptions&, SweepTotals* totals = nullptr);

}  // namespace rtrs::sim_tool
