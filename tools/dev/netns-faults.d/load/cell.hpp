// The unit of the load: a cell of the device whose whole content tells which write it comes from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrs::real {

inline constexpr std::size_t kCellBytes = 4096;

// `value` is that of one write and of no other; not 0, which stands for a cell that was never written.
void write_cell(std::uint32_t value, std::uint32_t number, std::uint64_t seed, std::span<std::byte> cell);

// The write that the cell comes from, 0 when it is all zeros; nothing when a byte of it is not that of one
// whole write of this run to this cell.
std::optional<std::uint32_t> value_of(std::span<const std::byte> cell, std::uint32_t number,
                                      std::uint64_t seed);

}  // namespace rtrs::real
