#include "backends/options/quantity.hpp"

#include <charconv>
#include <limits>
#include <optional>

namespace rtrs::options {
namespace {

constexpr double kLongest = 876'000.0 * 3600e9;  // ns; the sum of a few such durations still fits in 64 bits

tl::unexpected<std::string> refuse(std::string_view text, const std::string& why) {
  return tl::unexpected("'" + std::string(text) + "' is " + why);
}

double nanoseconds_of(std::string_view unit) {
  struct Unit {
    std::string_view name;
    double nanoseconds;
  };
  for (const Unit& one : {Unit{"", 1e9},
                          {"ns", 1},
                          {"us", 1e3},
                          {"ms", 1e6},
                          {"s", 1e9},
                          {"m", 60e9},
                          {"min", 60e9},
                          {"h", 3600e9}})
    if (unit == one.name) return one.nanoseconds;
  return 0;
}

// Returns the exponent of the power of two that the unit stands for.
std::optional<unsigned> shift_of(std::string_view unit) {
  std::string lower(unit);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (lower == "b") return 0;
  const std::size_t power =
      lower.empty() ? std::string::npos : std::string_view("kmgtpe").find(lower.front());
  if (power == std::string::npos) return std::nullopt;
  lower.erase(0, 1);
  if (!lower.empty() && lower != "b" && lower != "ib") return std::nullopt;
  return static_cast<unsigned>(10 * (power + 1));
}

}  // namespace

tl::expected<Nanos, std::string> parse_duration(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const double unit = nanoseconds_of(text.substr(static_cast<std::size_t>(end - text.data())));
  const bool is_duration = unit != 0 && number >= 0 && number <= std::numeric_limits<double>::max();
  if (error != std::errc{} || !is_duration)
    return refuse(text, "not a duration: expected a number of ms, s, m or h, e.g. 500ms, 30s, 2m");
  if (number * unit > kLongest) return refuse(text, "too long: durations are at most 876000h");
  return static_cast<Nanos>(number * unit);
}

tl::expected<Nanos, std::string> parse_positive_duration(std::string_view text) {
  auto duration = parse_duration(text);
  if (duration && *duration == 0) return refuse(text, "too short: it must be greater than 0");
  return duration;
}

tl::expected<std::uint64_t, std::string> parse_size(std::string_view text, std::uint64_t plain) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto shift = unit.empty() ? std::optional<unsigned>(0) : shift_of(unit);
  if (error == std::errc::invalid_argument || !shift)
    return refuse(text, "not a size: expected a number of bytes, k, M, G or T, e.g. 4096, 64k, 1G");
  const std::uint64_t bytes = unit.empty() ? plain : std::uint64_t{1} << *shift;
  if (error != std::errc{} || number > std::numeric_limits<std::uint64_t>::max() / bytes)
    return refuse(text, "too large: sizes are less than 16E");
  return number * bytes;
}

}  // namespace rtrs::options
