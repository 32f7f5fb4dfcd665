// Parses ranges of seeds. "A..B": seeds from A up to, but not including B; "A": only seed A. Numbers are
// decimal or 0x... The largest 64-bit number is not a seed, so it is valid only as B.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace rtrs::sim_tool {

struct SeedRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const noexcept { return end - first; }
};
std::optional<SeedRange> parse_seed_range(const std::string& text);
std::string text_of(const SeedRange& seeds);  // "A..B"

}  // namespace rtrs::sim_tool
