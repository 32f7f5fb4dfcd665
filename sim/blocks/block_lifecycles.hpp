// Plays of block scenarios in which a device comes and goes: mapped, opened again, unmapped, refused.
#pragma once
#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

void unmapped_in_a_remap(BlockWorld&);
void unmapped_under_io(BlockWorld&);
void mapped_as_the_link_returns(BlockWorld&);
void refused_for_a_while(BlockWorld&);
void mapped_twice(BlockWorld&);
void requests_of_several_messages(BlockWorld&);

// block_sizes.cpp
void grown(BlockWorld&);
void shrunk(BlockWorld&);
void grown_under_load(BlockWorld&);
void resized_under_load(BlockWorld&);

}  // namespace rtrs::sim
