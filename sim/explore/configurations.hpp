// The small worlds that are searched, by name, and what must come out of them.
#pragma once
#include <string>
#include <vector>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

struct Configuration {
  std::string name;
  std::string text;              // what may happen in it, for people
  sim::MachineConfig machines;   // of peers that agree on the fence
  unsigned connected_first = 0;  // paths that are connected before anything else happens
  std::uint64_t states = 0;      // roughly, with and without the fence together: for the time that is left
  bool fence_off = false;        // to be searched without the fence as well
  bool failover = false;         // without the fence, the rules of failover must break
  std::string must_break;        // rule that this one is planted to break; empty: none
};

const std::vector<Configuration>& configurations();
// Null for an unknown name.
const Configuration* configuration(const std::string& name);

// The machines of a server that knows neither fence nor generations, as the kernel's: its clients replay at
// once.
sim::MachineConfig without_fence(sim::MachineConfig);
// The world from which a search of these machines goes out.
sim::MachineWorld root_of(const Configuration&, bool fence);

}  // namespace rtrs::explore
