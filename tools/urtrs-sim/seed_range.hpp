// "A..B": seeds A up to and without B; "A": that seed alone. Decimal or 0x... The largest number there is can
// only be B: it is no seed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace rtrs::tools {

struct SeedRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const noexcept { return end - first; }
};
std::optional<SeedRange> parse_seed_range(const std::string& text);

}  // namespace rtrs::tools
