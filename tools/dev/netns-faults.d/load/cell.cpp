#include "tools/dev/netns-faults.d/load/cell.hpp"

#include <array>
#include <cstring>

#include "sim/oracles/digest.hpp"

namespace rtrs::real {
namespace {

using Words = std::array<std::uint64_t, kCellBytes / 8>;

Words content(std::uint32_t value, std::uint32_t number, std::uint64_t seed) {
  Words words;
  words[0] = std::uint64_t{value} << 32 | number;
  words[1] = seed;
  std::uint64_t next = sim::mix(words[0] ^ sim::mix(seed));
  for (std::size_t at = 2; at < words.size(); ++at) {
    next = next * 0x9e3779b97f4a7c15ULL + at;
    words[at] = next;
  }
  return words;
}

}  // namespace

void write_cell(std::uint32_t value, std::uint32_t number, std::uint64_t seed, std::span<std::byte> cell) {
  const Words words = content(value, number, seed);
  std::memcpy(cell.data(), words.data(), kCellBytes);
}

std::optional<std::uint32_t> value_of(std::span<const std::byte> cell, std::uint32_t number,
                                      std::uint64_t seed) {
  Words words;
  std::memcpy(words.data(), cell.data(), kCellBytes);
  const auto value = static_cast<std::uint32_t>(words[0] >> 32);
  if (value == 0) return words == Words{} ? std::optional<std::uint32_t>(0) : std::nullopt;
  if (words != content(value, number, seed)) return std::nullopt;
  return value;
}

}  // namespace rtrs::real
