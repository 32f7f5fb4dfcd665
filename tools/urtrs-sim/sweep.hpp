// Many seeds at once, in processes of their own: a seed that crashes its process is a finding like any other.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "sim/world/world.hpp"
#include "tools/urtrs-sim/seed_range.hpp"
#include "tools/urtrs-sim/sweep_state.hpp"

namespace rtrs::tools {

struct SweepOptions {
  SeedRange seeds;
  unsigned jobs = 1;
  double time_limit = 0;                     // seconds; 0: none
  unsigned determinism_percent = 1;          // of the seeds run twice
  bool specification = false;                // ask it in every run
  bool block_devices = false;                // each seed plays a world of them too
  bool over_tcp = false;                     // see sim::Scenario
  sim::MakeNet make_net = nullptr;           // see sim::WorldOptions
  bool replay = false;                       // their traces are replayed
  bool quiet = false;                        // only the verdict
  bool summary = true;                       // say what was done
  bool hash_only = false;                    // print one hash over all seeds instead of the summary
  const sim::FaultFilter* filter = nullptr;  // borrowed; null: none
  std::string filter_text;                   // " --without ghosts", for the line that repeats a run
  std::string traces = ".";                  // folder for the traces of a seed that failed
  std::string artifacts;                     // folder for what else it leaves; empty: the traces alone
  SweepState* state = nullptr;               // kept while it plays; borrowed, null: none
  // The command that goes on with these seeds, "urtrs-sim sweep --seeds 7..9"; empty: none can.
  std::function<std::string(SeedRange)> go_on;
};
// What the runs of a sweep passed through.
struct SweepTotals {
  std::uint64_t seeds = 0;
  std::array<std::uint64_t, sim::kMarks> marks{};          // seeds
  std::array<std::uint64_t, sim::kFaultClasses> faults{};  // strikes of timed faults
  // Seeds by the states of the two ends of a path: [client's][server's].
  std::array<std::array<std::uint64_t, sim::kPathStates>, sim::kPathStates> pairs{};
};
// The exit code. `totals` may be null.
int sweep(const SweepOptions&, SweepTotals* totals = nullptr);

}  // namespace rtrs::tools
