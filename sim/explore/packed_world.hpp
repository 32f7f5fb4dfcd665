// Compact encoding of worlds, because a search stores millions: run-length encoding of zeros, one byte for
// small numbers, and nothing that the configuration determines.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

// Appends the world, which must not have violated a rule.
void pack(const sim::MachineWorld&, std::vector<std::uint8_t>& bytes);
// Restores the world that was packed into `bytes`. `world` must have the same configuration.
void unpack(std::span<const std::uint8_t> bytes, sim::MachineWorld& world);

}  // namespace rtrs::explore
