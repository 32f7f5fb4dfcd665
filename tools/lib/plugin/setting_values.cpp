#include "tools/lib/plugin/setting_values.hpp"

#include <charconv>

#include "tools/lib/text/quantity.hpp"

namespace rtrs::nbdkit {
namespace {

constexpr Nanos kLongestInterval = seconds(3600);

}  // namespace

Done refuse(std::string_view key, std::string_view value, const std::string& why) {
  return tl::unexpected(std::string(key) + "=" + std::string(value) + ": " + why);
}

Done set_whole(std::string_view key, std::string_view value, std::uint64_t least, std::uint64_t most,
               std::uint64_t& out) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number < least || number > most)
    return refuse(key, value,
                  "expected a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  out = number;
  return {};
}

Done set_duration(std::string_view key, std::string_view value, Nanos& out) {
  const auto duration = tools::parse_positive_duration(value);
  if (!duration) return tl::unexpected(std::string(key) + ": " + duration.error());
  out = *duration;
  return {};
}

Done set_interval(std::string_view key, std::string_view value, Nanos least, Nanos& out) {
  Nanos given = 0;
  if (Done done = set_duration(key, value, given); !done) return done;
  if (given < least || given > kLongestInterval)
    return refuse(key, value, "expected " + std::to_string(least / milliseconds(1)) + "ms to 1h");
  out = given;
  return {};
}

Done set_timeout(std::string_view key, std::string_view value, Nanos& out) {
  if (value != "never") return set_duration(key, value, out);
  out = kNever;
  return {};
}

Done set_switch(std::string_view key, std::string_view value, bool& out) {
  if (value != "on" && value != "off") return refuse(key, value, "expected on or off");
  out = value == "on";
  return {};
}

}  // namespace rtrs::nbdkit
