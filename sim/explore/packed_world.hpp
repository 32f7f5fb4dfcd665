// Compact encoding of worlds, because a search stores millions: run-length encoding of zeros, one byte for
// small numbers, and nothing that the configuration determines.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

// Appends the world, which must not have violated a rule. `before`: a packed world of which this one is a
// copy that one step has changed since MachineWorld::undo(), so that an unchanged end has the same bytes.
void pack(const sim::MachineWorld&, std::span<const std::uint8_t> before, std::vector<std::uint8_t>& bytes);
// The ends that unpack() has changed.
struct Unpacked {
  bool client = false;
  bool server = false;
};
// Restores the world that was packed into `bytes`. `world` must have the same configuration. `before`: the
// bytes that `world` was unpacked from, or nothing if it has another state.
Unpacked unpack(std::span<const std::uint8_t> bytes, std::span<const std::uint8_t> before,
                sim::MachineWorld& world);

}  // namespace rtrs::explore
