// Directed scenarios on the command line.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenarios/directed.hpp"
#include "tools/urtrs-sim/seed_range.hpp"

namespace rtrs::sim_tool {

// Returns the scenario with the variations of this seed; nullopt after printing an error if there is none.
std::optional<sim::Scenario> directed_world(const std::string& id, std::uint64_t seed);
// Adds the scenarios of a file (sim/scenarios/scenario_text.hpp) and returns their ids. Returns nullopt after
// printing an error if the file cannot be read or is invalid.
std::optional<std::vector<std::string>> load_scenarios(const std::string& path);
// Scenarios selected by an id: the scenario itself, or all variants of a race ("L01": L01a, L01b, ...).
// Empty: none.
std::vector<std::string> scenarios_of(const std::string& id);

struct ScenarioOptions {
  SeedRange seeds;
  std::string only;       // ids separated by commas; empty: all
  bool no_fence = false;  // see sim::disable_fence
  std::string
      file;  // file given to load_scenarios(), for the command line that repeats a failure; may be empty
};
// Runs each scenario with each seed, in separate processes, until the first failure. Returns the exit code.
int play_scenarios(const ScenarioOptions&);

}  // namespace rtrs::sim_tool
