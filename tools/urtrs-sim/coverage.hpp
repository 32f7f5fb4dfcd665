// What a sweep passes through, and what it never does.
#pragma once
#include <string>

#include "tools/urtrs-sim/sweep.hpp"

namespace rtrs::tools {

// Plays the seeds and prints every mark with its count, and which states the two ends of a path were in at a
// time. `rare`: a file of marks that a sweep need not reach, a line each: the mark, and the directed scenario
// that is played instead, and must. Also prints how often each timed fault struck. Returns kViolated if a
// mark was not reached or a fault never struck.
int coverage(const SweepOptions&, const std::string& rare);

}  // namespace rtrs::tools
