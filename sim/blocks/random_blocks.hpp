// Block devices under random load and random trouble.
#pragma once
#include <cstdint>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

BlockOptions draw_block_options(ChoiceSource&);
// Devices are mapped and unmapped, opened for reading only, refused for a while, resized and taken away;
// requests are of any length, also while no path is there; paths break and are cut; the server and its host
// die and come back; syncs fail. Then everything heals.
void play_random_blocks(BlockWorld&);

}  // namespace rtrs::sim
