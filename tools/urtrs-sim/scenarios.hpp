// Runs directed scenarios from the command line.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/scenarios/directed.hpp"
#include "tools/urtrs-sim/seed_range.hpp"
#include "tools/urtrs-sim/sweep_result.hpp"

namespace rtrs::sim_tool {

// Returns the scenario in the variation that this seed selects; nullopt after printing an error if no
// scenario has this id.
std::optional<sim::Scenario> directed_world(const std::string& id, std::uint64_t seed);
// Adds the scenarios in a file (sim/scenarios/scenario_text.hpp) and returns their ids. Returns nullopt after
// printing an error if the file cannot be read or is invalid.
std::optional<std::vector<std::string>> load_scenarios(const std::string& path);
// Returns the ids of the scenarios that an id selects: the scenario itself, or all variants of a race ("L01":
// L01a, L01b, ...). Empty if there are none.
std::vector<std::string> scenarios_of(const std::string& id);

struct ScenarioOptions {
  SeedRange seeds;
  std::string only;       // ids separated by commas; empty: all
  bool no_fence = false;  // see sim::disable_fence
  // File that load_scenarios() has read, named in the command line that repeats a failure; may be empty.
  std::string file;
  // Receives all failures and the sums of its counts "runs" and "events". Not owned; null: a scenario ends at
  // its first failure.
  SweepResult* result = nullptr;
};
// Runs each scenario with each seed, each run in a separate process, until the first failure. Returns the
// exit code. With a `result`, kOk means that it is complete.
int play_scenarios(const ScenarioOptions&);

}  // namespace rtrs::sim_tool
