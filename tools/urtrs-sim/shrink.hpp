// The shrink command: a failing seed becomes a short story.
#pragma once
#include <cstdint>
#include <string>

namespace rtrs::tools {

struct ShrinkCommand {
  std::uint64_t seed = 0;
  std::string scenario;    // id of a directed one; empty: what the seed draws
  bool no_fence = false;   // of a scenario: without the fence, judged as if it were there
  std::string file;        // of scenarios, that was read; empty: none was
  std::string choice_log;  // to begin with instead of the seed
  std::string out;         // choice log to write; empty: urtrs-sim-SEED.choices
  double seconds = 30;
  bool over_tcp = false;            // see sim::Scenario
  sim::MakeNet make_net = nullptr;  // see sim::WorldOptions
};
// The exit code: that of the run, 0 when there is nothing to shrink.
int shrink_and_report(const ShrinkCommand&);

}  // namespace rtrs::tools
