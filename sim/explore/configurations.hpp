// Configurations for exhaustive searches: small simulated systems by name, and the expected result of each.
#pragma once
#include <string>
#include <vector>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

struct Configuration {
  std::string name;
  std::string text;              // human-readable description
  sim::MachineConfig machines;   // configuration with a fence, on which both ends agreed
  unsigned connected_first = 0;  // number of paths connected before the search starts
  // Approximate number of states with and without fence, to estimate the remaining time.
  std::uint64_t states = 0;
  bool fence_off = false;     // search this configuration without the fence, too
  bool failover = false;      // without the fence, the failover rules must be violated
  std::string violated_rule;  // rule that the planted bug violates; empty: no planted bug
};

const std::vector<Configuration>& configurations();
// Returns nullptr for an unknown name.
const Configuration* configuration(const std::string& name);

// Returns the configuration adapted to a server without fences and generations, like the kernel server. The
// client resends at once.
sim::MachineConfig without_fence(sim::MachineConfig);
// Returns the world at which a search starts.
sim::MachineWorld root_of(const Configuration&, bool fence);

}  // namespace rtrs::explore
