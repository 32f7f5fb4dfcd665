// `urtrs-sim coverage`: which marks (rare situations) and state pairs a sweep reaches.
#pragma once
#include <string>

#include "tools/urtrs-sim/sweep.hpp"

namespace rtrs::sim_tool {

// Runs the seeds. Prints the number of seeds that reached each mark, the number for each pair of client and
// server path states, and how often each timed fault struck. `rare`: file of marks that the sweep need not
// reach; each line has a mark and the directed scenario that must reach it. Returns the exit code: kViolated
// if a mark was not reached or a fault never struck.
int coverage(const SweepOptions&, const std::string& rare);

}  // namespace rtrs::sim_tool
