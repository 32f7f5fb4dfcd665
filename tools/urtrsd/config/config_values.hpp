// Table of the scalar settings. One row defines the key in the file, the flag, and the texts for --help and
// --print-config.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/options/connection.hpp"
#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

// A setting: a row either of the table of urtrsd or of the options that servers and clients share
// (backends/options/connection.cpp).
class Setting {
 public:
  using Shared = options::Option<options::Connection>;
  using Own = options::Option<DaemonConfig*>;
  Setting(const Shared& shared) : row_(&shared), shared_(&shared) {}
  Setting(const Own& own) : row_(&own), own_(&own) {}

  const options::Row* operator->() const { return row_; }
  std::string key() const { return std::string(row_->name); }
  bool is_boolean() const { return row_->rule.kind == options::Kind::toggle; }
  std::string show(const DaemonConfig& config) const;  // empty: the setting is unset or an empty text
  std::string default_value() const;                   // describes a computed default in words; may be empty
  // Placeholder of the value in help texts, for example "FILE", "<integer 0..65535>".
  std::string placeholder() const;
  // Expected values, for example "integer 0..65535", "boolean", "one of tcp, udp".
  std::string expected() const;
  // Stores the value and returns an empty string. If the value is wrong, returns a description of the
  // expected values.
  std::string store(DaemonConfig& config, std::string_view value) const;

 private:
  const options::Row* row_;
  const Shared* shared_ = nullptr;
  const Own* own_ = nullptr;
};

const std::vector<Setting>& settings();
const Setting* find_setting(std::string_view key);  // nullptr: no such setting

// Former name of a setting, accepted for one more release. Values of the former setting are integers.
struct OlderKey {
  std::string_view key;   // former key
  std::string_view now;   // current key
  std::string_view unit;  // unit to append to the integer
  std::string_view zero;  // current value that corresponds to the former value 0; empty: 0
};
std::span<const OlderKey> older_keys();

inline constexpr std::uint32_t kMaxDelayMs = 600000;

}  // namespace rtrs::daemon
