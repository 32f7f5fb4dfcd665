// Directed and random scenarios of block devices. sim/scenarios/directed.hpp lists them with the others.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

struct BlockScenario {
  std::string_view id;
  std::string_view title;
  BlockOptions options;
  void (*play)(BlockWorld&);  // starts with a connected session and the disks "a" and "b" of 64 sectors
  bool random = false;        // the options are drawn from the seed, and a disk "c" exists
};
// Id of the scenario that draws everything; `urtrs-sim sweep` plays it for each seed.
inline constexpr std::string_view kRandomBlocks = "BD24";
std::span<const BlockScenario> block_scenarios();
// Returns the world of a block scenario. The world plays the scenario and then closes everything in order.
// The BlockScenario must outlive the world. The ChoiceSource only draws the options of the scenario; the run
// has its own source.
Scenario make_block_world(const BlockScenario&, ChoiceSource&);
// Makes the world play this block scenario.
void drive(Scenario&, const BlockScenario&);
// Returns nullptr for an unknown id.
const BlockScenario* find_block_scenario(std::string_view id);

}  // namespace rtrs::sim
