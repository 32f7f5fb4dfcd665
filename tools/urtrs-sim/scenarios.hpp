// Directed scenarios at the command line.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "sim/directed.hpp"
#include "tools/urtrs-sim/seed_range.hpp"

namespace rtrs::tools {

// The world of this scenario for this seed; nothing, and a word on stderr, when there is no such scenario.
std::optional<sim::Scenario> directed_world(const std::string& id, std::uint64_t seed);
// Plays all of them with each seed, in processes of their own, and returns the exit code.
int play_scenarios(const SeedRange&);

}  // namespace rtrs::tools
