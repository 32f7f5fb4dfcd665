// Worlds as few bytes, so that millions wait their turn: zeros are counted, small numbers take one byte, and
// what the configuration decides is left out.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

// Appends the world, which must not have broken a rule.
void pack(const sim::MachineWorld&, std::vector<std::uint8_t>& bytes);
// Makes `world`, which has the same configuration, equal to the one that was packed into `bytes`.
void unpack(std::span<const std::uint8_t> bytes, sim::MachineWorld& world);

}  // namespace rtrs::explore
