#include "tools/urtrs-sim/seed_range.hpp"

#include <charconv>
#include <limits>
#include <string_view>

namespace rtrs::sim_tool {

namespace {

std::optional<std::uint64_t> parse_number(std::string_view text) {
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::optional<SeedRange> parse_seed_range(const std::string& text) {
  const auto dots = text.find("..");
  const auto first = parse_number(std::string_view(text).substr(0, dots));
  if (!first || *first == std::numeric_limits<std::uint64_t>::max()) return std::nullopt;
  if (dots == std::string::npos) return SeedRange{*first, *first + 1};
  const auto end = parse_number(std::string_view(text).substr(dots + 2));
  if (!end || *end <= *first) return std::nullopt;
  return SeedRange{*first, *end};
}

std::string text_of(const SeedRange& seeds) {
  return std::to_string(seeds.first) + ".." + std::to_string(seeds.end);
}

}  // namespace rtrs::sim_tool
