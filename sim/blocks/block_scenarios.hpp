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
// Returns the world of a block scenario and sets its play: the scenario, then the orderly close. The
// BlockScenario must outlive the world. The ChoiceSource only draws the scenario; the run has its own.
Scenario make_block_world(const BlockScenario&, ChoiceSource&);
// Sets the play of a world to this block scenario.
void drive(Scenario&, const BlockScenario&);
// Returns nullptr for an unknown id.
const BlockScenario* find_block_scenario(std::string_view id);

}  // namespace rtrs::sim
