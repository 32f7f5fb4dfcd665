// `urtrs-sim coverage`: shows which marks (rare situations) and pairs of path states a sweep reaches.
#pragma once
#include <string>

#include "tools/urtrs-sim/sweep.hpp"

namespace rtrs::sim_tool {

// Runs the seeds. Prints how many seeds reached each mark, how many reached each pair of client and server
// path states, and how often each timed fault struck. `rare`: file that lists marks which the sweep need not
// reach; each line has a mark and the directed scenario that must reach it instead. Returns the exit code:
// kViolated if a mark was not reached or a fault never struck.
int coverage(const SweepOptions&, const std::string& rare);

}  // namespace rtrs::sim_tool
