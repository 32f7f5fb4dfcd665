// Helper functions that several block scenarios use.
#pragma once
#include <cstdint>
#include <string>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

inline constexpr std::uint32_t kSectors = 64;  // initial size of each disk

DeviceHandle open(BlockWorld&, const std::string& name, AccessMode mode = AccessMode::read_write);
// Waits until the IO completes. Returns 0 or its errno.
std::uint16_t done(BlockWorld&, std::uint32_t io);
void good(BlockWorld&, std::uint32_t io);
// Submits `count` random IOs of all kinds at random places.
void load(BlockWorld&, DeviceHandle, unsigned count);
// Submits up to eight writes and reads at once. Each uses different sectors, so that none waits for another.
void spread(BlockWorld&, DeviceHandle, std::uint32_t count);
void over(BlockWorld&);
void restart(BlockWorld&, Nanos down);

}  // namespace rtrs::sim
