// A scenario of block devices with random load and random faults.
#pragma once
#include <cstdint>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

BlockOptions draw_block_options(ChoiceSource&);
// Maps and unmaps devices, some of them read-only; makes the server refuse, resize and take away devices;
// submits requests of any length, even without a path; breaks and cuts paths; crashes and restarts the server
// and its host; makes syncs fail. Ends all faults before it returns.
void play_random_blocks(BlockWorld&);

}  // namespace rtrs::sim
