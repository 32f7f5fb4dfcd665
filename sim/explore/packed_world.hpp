// Compact encoding of worlds, so that a search can store millions of worlds. Runs of zeros are stored as a
// length, a small number takes one byte, and values that the configuration determines are omitted.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

// Appends the packed world to `bytes`. The world must not have violated a rule. `before`: the packed form of
// the world that was given to MachineWorld::undo() before the last step; the section of an end that the step
// did not change is copied from it. Empty: nothing is copied.
void pack(const sim::MachineWorld&, std::span<const std::uint8_t> before, std::vector<std::uint8_t>& bytes);
// The ends that unpack() has changed.
struct Unpacked {
  bool client = false;
  bool server = false;
};
// Restores the world that was packed into `bytes`. `world` must have the same configuration. `before`: the
// bytes from which `world` was unpacked; empty if `world` has another state.
Unpacked unpack(std::span<const std::uint8_t> bytes, std::span<const std::uint8_t> before,
                sim::MachineWorld& world);

}  // namespace rtrs::explore
