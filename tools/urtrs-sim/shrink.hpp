// `urtrs-sim shrink`: reduces a failing run to the choices that the failure needs.
#pragma once
#include <cstdint>
#include <string>

#include "sim/net/basic/net.hpp"

namespace rtrs::sim_tool {

struct ShrinkCommand {
  std::uint64_t seed = 0;
  std::string scenario;   // id of a directed scenario; empty: random scenario of the seed
  bool no_fence = false;  // disable the fence of the scenario, but judge the run as if the fence were enabled
  std::string file;       // scenario file that was loaded; empty: none
  std::string choice_log;  // choices to start with instead of the seed
  std::string out;         // output file; empty: urtrs-sim-SEED.choices
  double seconds = 30;
  bool over_tcp = false;            // see sim::Scenario
  sim::MakeNet make_net = nullptr;  // see sim::WorldOptions
};
// Returns the exit code of the failing run; 0 if there is nothing to shrink.
int shrink_and_report(const ShrinkCommand&);

}  // namespace rtrs::sim_tool
