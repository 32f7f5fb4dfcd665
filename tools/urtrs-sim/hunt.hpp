// `urtrs-sim hunt`: guided search. Plays new seeds, and forks runs where they reached a rare situation.
#pragma once
#include <cstdint>
#include <string>

#include "sim/net/basic/net.hpp"

namespace rtrs::sim_tool {

struct HuntCommand {
  std::uint64_t seed = 0;         // first seed; determines the whole search
  std::uint64_t most_events = 0;  // ends the search after as many simulated events; 0: no limit
  double time_limit = 0;          // seconds; 0: no limit
  std::string state;              // state file; empty: none
  std::string out;                // choice log of the failing run; empty: urtrs-sim-hunt-SEED.choices
  std::string options;            // options that change the runs, such as " --fabric tcp"
  unsigned jobs = 1;
  bool over_tcp = false;            // see sim::Scenario
  sim::MakeNet make_net = nullptr;  // see sim::WorldOptions
};
// Searches until a rule is broken, a limit is reached, or a signal arrives. Returns the exit code.
int hunt(const HuntCommand& command);

}  // namespace rtrs::sim_tool
