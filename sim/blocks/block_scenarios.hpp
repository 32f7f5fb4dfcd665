// Directed scenarios of block devices, and random ones. sim/scenarios/directed.hpp lists them with the
// others.
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
  void (*play)(BlockWorld&);  // from a session that is up, with the disks "a" and "b" of 64 sectors
  bool random = false;        // the options are drawn from the seed, and there is a disk "c"
};
// The one in which everything is drawn: `urtrs-sim sweep` plays it for each seed.
inline constexpr std::string_view kRandomBlocks = "BD24";
std::span<const BlockScenario> block_scenarios();
// The world of the scenario, and what drives it: the scenario, which has to outlive it, then the end of
// everything. The choices are not those of the run.
Scenario make_block_world(const BlockScenario&, ChoiceSource&);
// Lets it drive the world.
void drive(Scenario&, const BlockScenario&);
// Null for an unknown id.
const BlockScenario* find_block_scenario(std::string_view id);

}  // namespace rtrs::sim
