// What urtrs-sim says about one seed.
#pragma once
#include <cstdint>
#include <string>

#include "sim/world/world.hpp"

namespace rtrs::tools {

// Exit codes of urtrs-sim.
inline constexpr int kOk = 0, kViolated = 1, kUsage = 2, kNoProgress = 4, kNondeterministic = 5;

struct ReportOptions {
  std::uint64_t seed = 0;
  std::string scenario;                      // id of a directed scenario; empty: what the seed draws
  std::string choice_log;                    // a file whose choices are played instead of those of the seed
  std::string trace;                         // prefix of trace files, empty: none
  bool verbose = false;                      // print what happens, as it happens
  bool no_fence = false;                     // see sim::take_fence_away
  const sim::FaultFilter* filter = nullptr;  // of a seed; borrowed, null: none
  bool over_tcp = false;                     // see sim::Scenario
  sim::MakeNet make_net = nullptr;           // see sim::WorldOptions
  bool name_traces = true;                   // say which files they are
};
// Runs it, prints what is wrong with it, and returns the exit code.
int run_and_report(const ReportOptions&);
// One line an oracle, fault and mark.
void print_catalogue();

}  // namespace rtrs::tools
