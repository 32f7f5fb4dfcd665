#include "tools/urtrs-sim/seed_range.hpp"

#include <charconv>
#include <string_view>

namespace rtrs::tools {

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
  if (!first) return std::nullopt;
  if (dots == std::string::npos) return SeedRange{*first, *first + 1};
  const auto end = parse_number(std::string_view(text).substr(dots + 2));
  if (!end || *end <= *first) return std::nullopt;
  return SeedRange{*first, *end};
}

std::optional<double> parse_duration(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || value <= 0) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit.empty() || unit == "s") return value;
  if (unit == "ms") return value / 1000;
  if (unit == "m" || unit == "min") return value * 60;
  if (unit == "h") return value * 3600;
  return std::nullopt;
}

}  // namespace rtrs::tools
