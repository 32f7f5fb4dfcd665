// What urtrs-sim says about one seed.
#pragma once
#include <cstdint>
#include <string>

#include "sim/world.hpp"

namespace rtrs::tools {

// Exit codes of urtrs-sim.
inline constexpr int kOk = 0, kViolated = 1, kUsage = 2, kNoProgress = 4, kNondeterministic = 5;

// Runs the seed, prints what is wrong with it and how to see it again, and returns the exit code. `trace`:
// prefix of trace files, empty for none.
int run_and_report(std::uint64_t seed, const std::string& trace, bool verbose);
// One line an oracle, fault and mark.
void print_catalogue();

}  // namespace rtrs::tools
