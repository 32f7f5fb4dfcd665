// Directed scenarios of block devices, and random ones. Their ids are beside those of
// sim/scenarios/directed.hpp and never the same.
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
// Null for an unknown id.
const BlockScenario* find_block_scenario(std::string_view id);

struct BlockResult {
  std::string failure;  // empty: every rule held
  std::uint64_t ios = 0;
  std::uint64_t hash = 0;
  Nanos virtual_time = 0;
};
// The scenario, then the end of everything.
BlockResult play_blocks(const BlockScenario&, std::uint64_t seed);

}  // namespace rtrs::sim
