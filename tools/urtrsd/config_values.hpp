// The scalar settings as a table: one row drives the file, the flag, --help and --print-config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tools/urtrsd/config.hpp"

namespace rtrs::daemon {

struct IntegerRule {
  std::uint32_t DaemonConfig::*member;
  std::uint32_t min;
  std::uint32_t max;
  bool power_of_two = false;
};
struct BooleanRule {
  bool DaemonConfig::*member;
};
// Unset, the program decides.
struct OptionalBooleanRule {
  std::optional<bool> DaemonConfig::*member;
  const char* unset;  // how it decides
};
struct TextRule {
  std::string DaemonConfig::*member;
  std::vector<std::string> choices = {};  // empty: any text
  bool may_be_empty = false;
};

struct Setting {
  std::string key;   // "port", or "heartbeat.interval_ms" for a key of the table [heartbeat]
  std::string flag;  // without the dashes; further names after a comma
  std::string help;
  std::variant<IntegerRule, BooleanRule, OptionalBooleanRule, TextRule> rule;
};

const std::vector<Setting>& settings();
const Setting* find_setting(std::string_view key);  // nullptr: no such setting

bool is_boolean(const Setting& setting);

// As written in a file, without quotes; how the program decides where nothing is the default; or empty.
std::string default_of(const Setting& setting);

// "integer 0..65535", "boolean", "one of tcp, udp".
std::string expected(const Setting& setting);

// Each returns an empty string when the value was stored, or what was expected instead.
std::string store_integer(DaemonConfig& config, const IntegerRule& rule, std::int64_t value);
// False: the setting is no boolean.
bool store_boolean(DaemonConfig& config, const Setting& setting, bool value);
std::string store_text(DaemonConfig& config, const TextRule& rule, const std::string& value);

inline constexpr std::uint32_t kMaxDelayMs = 600000;

}  // namespace rtrs::daemon
