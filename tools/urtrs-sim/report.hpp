// Runs one seed and reports the result.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/world/world.hpp"

namespace rtrs::sim_tool {

// What a run shows besides its traces. Times are those of the world.
struct RunNote {
  Nanos time = 0;
  std::string text;
};
struct RunNotes {
  static constexpr std::size_t kMostFaults = 1000;  // further ones are left out
  std::vector<RunNote> faults;
  std::optional<RunNote> failure;  // of an oracle
};

// Exit codes of urtrs-sim.
inline constexpr int kOk = 0, kViolated = 1, kUsage = 2, kNoProgress = 4, kNondeterministic = 5;

struct ReportOptions {
  std::uint64_t seed = 0;
  std::string scenario;                      // id of a directed scenario; empty: random scenario of the seed
  std::string choice_log;                    // file with the choices to use instead of the seed
  std::string trace;                         // prefix of trace files; empty: none
  bool verbose = false;                      // print each event
  bool no_fence = false;                     // see sim::disable_fence
  const sim::FaultFilter* filter = nullptr;  // enabled faults; null: all; not owned
  bool over_tcp = false;                     // see sim::Scenario
  sim::MakeNet make_net = nullptr;           // see sim::WorldOptions
  bool name_traces = true;                   // print the names of the trace files
  std::string page;                          // HTML file of the run; empty: none
  RunNotes* notes = nullptr;                 // receives the faults and the failure; not owned
};
// Runs, prints failures, and returns the exit code.
int run_and_report(const ReportOptions&);
// Prints all oracles, faults and marks, one per line.
void print_catalogue();

}  // namespace rtrs::sim_tool
