// Directed scenarios at the command line.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenarios/directed.hpp"
#include "tools/urtrs-sim/seed_range.hpp"

namespace rtrs::tools {

// The world of this scenario for this seed; nothing, and a word on stderr, when there is no such scenario.
std::optional<sim::Scenario> directed_world(const std::string& id, std::uint64_t seed);
// Adds the scenarios of a file (sim/scenarios/scenario_text.hpp) to those of the program; their ids. Nothing,
// and a word on stderr, when it cannot be read or is wrong.
std::optional<std::vector<std::string>> load_scenarios(const std::string& path);
// Those that an id stands for: itself, or all of a race ("L01": L01a, L01b, ...). Empty: none.
std::vector<std::string> scenarios_of(const std::string& id);

struct ScenarioOptions {
  SeedRange seeds;
  std::string only;       // ids, with commas between; empty: all
  bool no_fence = false;  // see sim::take_fence_away
  std::string file;  // that load_scenarios() took them from, for the line that repeats a failure; or empty
};
// Plays them with each seed, in processes of their own, until the first that fails, and returns the exit
// code.
int play_scenarios(const ScenarioOptions&);

}  // namespace rtrs::tools
