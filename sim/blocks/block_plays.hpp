// What plays of block scenarios are made of.
#pragma once
#include <cstdint>
#include <string>

#include "sim/blocks/block_world.hpp"

namespace rtrs::sim {

inline constexpr std::uint32_t kSectors = 64;  // of each disk at the beginning

DeviceHandle open(BlockWorld&, const std::string& name, AccessMode mode = AccessMode::read_write);
// The errno of an IO, once it is over.
std::uint16_t done(BlockWorld&, std::uint32_t io);
void good(BlockWorld&, std::uint32_t io);
// Reads, writes and the others, of any place.
void load(BlockWorld&, DeviceHandle, unsigned count);
// Writes and reads, up to eight, that wait for nothing: of other sectors each.
void spread(BlockWorld&, DeviceHandle, std::uint32_t count);
void over(BlockWorld&);
void restart(BlockWorld&, Nanos down);

}  // namespace rtrs::sim
