// Table of the scalar settings: one row defines the key in the file, the flag, --help and --print-config.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tools/urtrsd/config/config.hpp"

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
// A boolean that the program decides if it is unset.
struct OptionalBooleanRule {
  std::optional<bool> DaemonConfig::*member;
  const char* unset;  // rule of that decision, for --help
};
struct TextRule {
  std::string DaemonConfig::*member;
  std::vector<std::string> choices = {};  // empty: any text
  bool may_be_empty = false;
};

struct Setting {
  std::string key;   // "port", or "heartbeat.interval_ms" for a key in the table [heartbeat]
  std::string flag;  // without dashes; more names follow after commas
  std::string help;
  std::variant<IntegerRule, BooleanRule, OptionalBooleanRule, TextRule> rule;
};

const std::vector<Setting>& settings();
const Setting* find_setting(std::string_view key);  // nullptr: no such setting

bool is_boolean(const Setting& setting);

// Default as written in a file, without quotes. If there is no default: the rule by which the program
// decides, or empty.
std::string default_of(const Setting& setting);

// Expected values in words: "integer 0..65535", "boolean", "one of tcp, udp".
std::string expected(const Setting& setting);

// The store functions return an empty string after storing the value, or the expected values in words.
std::string store_integer(DaemonConfig& config, const IntegerRule& rule, std::int64_t value);
// Returns false if the setting is not a boolean.
bool store_boolean(DaemonConfig& config, const Setting& setting, bool value);
std::string store_text(DaemonConfig& config, const TextRule& rule, const std::string& value);

inline constexpr std::uint32_t kMaxDelayMs = 600000;

}  // namespace rtrs::daemon
