// Directed scenarios as text:
//
//   # Defaults: two paths of three connections, one heartbeat per second, eight permits, some load.
//   setup busy
//     set workload.requests=200 workload.gap=50us
//   scenario L02a: busy
//     title a path breaks under load
//     delivered number=20
//     break_path
//     completed number=100
//
// `setup NAME: BASE...` begins a named list of options, which starts with the options of the setups BASE.
// `scenario ID: SETUP...` begins a scenario. `set` changes options (names: sim/world/scenario_fields.hpp).
// Times have a unit; "never" means no limit. Every other line is a step (sim/world/script.hpp). The line
// `disks a b=128` makes it a scenario of block devices: the steps of sim/blocks/device_script.hpp follow, and
// `rate` steps, which apply from the start. `expect O9` requires that this oracle fails; without it no rule
// may be violated. Indentation has no meaning; # begins a comment line.
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
  std::size_t line = 0;                                       // first line in the text, counted from 1
  std::vector<std::pair<std::string, std::string>> settings;  // options and values, in order of effect
  Script script;
  // Disks and steps of a scenario of block devices; otherwise empty.
  std::vector<DeviceScriptReader::Disk> disks;
  DeviceScript devices;
  std::string expect;  // id of the oracle that must fail; empty: none
};
using Setups = std::map<std::string, std::vector<std::pair<std::string, std::string>>, std::less<>>;

// Parses the scenarios of a text and adds its setups to `setups`. Returns nullopt for an invalid text; `why`
// begins with the line.
std::optional<std::vector<ScenarioText>> parse_scenarios(std::string_view text, Setups& setups,
                                                         std::string& why);
// Returns the world of a ScenarioText, which must outlive the world. The ChoiceSource only draws options; the
// run has its own source.
Scenario world_of(const ScenarioText&, ChoiceSource&);
// Help text: all options with their defaults, and all steps.
std::string scenario_reference();
// Makes the world play the steps of a block device scenario.
void drive(Scenario&, const ScenarioText&);

}  // namespace rtrs::sim
