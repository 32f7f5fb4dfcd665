// Directed scenarios as text, which a person can read and write:
//
//   # Two paths of three connections, a heartbeat a second, eight permits, some load: what is not set.
//   setup busy
//     set workload.requests=200 workload.gap=50us
//   scenario L02a: busy
//     title a path dies in the middle of everything
//     delivered number=20
//     break_path
//     completed number=100
//
// `setup NAME: BASE...` collects options under a name, after those of other setups; `scenario ID: SETUP...`
// begins a scenario. `set` changes options (sim/world/scenario_fields.hpp has their names); times have a
// unit, "never" is no time. Every other line is a step (sim/world/script.hpp). The line `disks a b=128`
// makes it a scenario of block devices: behind it come the steps of sim/blocks/device_script.hpp, and `rate`
// steps, which apply from the beginning. `expect O9` says that this oracle has to fail; without it every rule
// holds. Indentation means nothing, # begins a comment line.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/blocks/device_script.hpp"
#include "sim/world/scenario.hpp"

namespace rtrs::sim {

struct ScenarioText {
  std::string id, title;
  std::size_t line = 0;                                       // of the text, from 1: where it begins
  std::vector<std::pair<std::string, std::string>> settings;  // in the order in which they apply
  Script script;
  // Of a scenario of block devices: its disks, and what happens to them. Otherwise there are none.
  std::vector<DeviceScriptReader::Disk> disks;
  DeviceScript devices;
  std::string expect;  // id of the oracle that has to fail; empty: none does
};
using Setups = std::map<std::string, std::vector<std::pair<std::string, std::string>>, std::less<>>;

// Adds the setups of the text to `setups`. Nothing when the text is wrong: `why` begins with the line.
std::optional<std::vector<ScenarioText>> parse_scenarios(std::string_view text, Setups& setups,
                                                         std::string& why);
// The world of the scenario, which has to outlive it. The choices are not those of the run.
Scenario world_of(const ScenarioText&, ChoiceSource&);
// All that a file may say: options with their values where nothing is set, and steps.
std::string scenario_reference();
// Lets a scenario of block devices drive the world.
void drive(Scenario&, const ScenarioText&);

}  // namespace rtrs::sim
