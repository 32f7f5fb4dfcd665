// Table of the scalar settings: one row defines the key in the file, the flag, its --help and --print-config.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/options/connection.hpp"
#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

// A setting: a row of the options shared with clients (backends/options/connection.cpp), or of the options
// that only urtrsd has.
class Setting {
 public:
  using Shared = options::Option<options::Connection>;
  using Own = options::Option<DaemonConfig*>;
  Setting(const Shared& shared) : row_(&shared), shared_(&shared) {}
  Setting(const Own& own) : row_(&own), own_(&own) {}

  const options::Row* operator->() const { return row_; }
  std::string key() const { return std::string(row_->name); }
  bool is_boolean() const { return row_->rule.kind == options::Kind::toggle; }
  std::string show(const DaemonConfig& config) const;  // empty: unset, or an empty text
  std::string default_value() const;                   // text for a default that is computed; may be empty
  std::string expected() const;                        // "integer 0..65535", "boolean", "one of tcp, udp"
  // Returns an empty string after storing the value, or the expected values in words.
  std::string store(DaemonConfig& config, std::string_view value) const;

 private:
  const options::Row* row_;
  const Shared* shared_ = nullptr;
  const Own* own_ = nullptr;
};

const std::vector<Setting>& settings();
const Setting* find_setting(std::string_view key);  // nullptr: no such setting

// Name of a setting in earlier releases, accepted for one more release. The value is an integer.
struct OlderKey {
  std::string_view key;   // older name
  std::string_view now;   // key of the setting now
  std::string_view unit;  // unit of the integer
  std::string_view zero;  // value now that replaces 0; empty: 0 stays 0
};
std::span<const OlderKey> older_keys();

inline constexpr std::uint32_t kMaxDelayMs = 600000;

}  // namespace rtrs::daemon
