// A cell is the unit of the load: a 4 KiB block whose content identifies the write that produced it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrs::real {

inline constexpr std::size_t kCellBytes = 4096;

// Fills `cell` (kCellBytes) with the content of cell `number`. `value` must be unique to one write and not 0;
// 0 means that the cell was never written.
void write_cell(std::uint32_t value, std::uint32_t number, std::uint64_t seed, std::span<std::byte> cell);

// Returns the value of the write that produced the cell, or 0 if the cell is all zeros. Returns nullopt if
// the content does not come from one complete write to this cell with this seed.
std::optional<std::uint32_t> value_of(std::span<const std::byte> cell, std::uint32_t number,
                                      std::uint64_t seed);

}  // namespace rtrs::real
