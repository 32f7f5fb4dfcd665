// Small text matters of the configuration: numbers, addresses, near misses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrs::daemon {

std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<bool> parse_boolean(std::string_view text);  // true false yes no on off 1 0
bool is_ip_address(const std::string& text);               // also with a scope: "fe80::1%eth0"
bool is_host_name(const std::string& text);
// One spelling for each address: "::1" for "0:0:0:0:0:0:0:1", "10.0.0.1" for "::ffff:10.0.0.1". The prefix
// "gid:" and the scope are kept.
std::string plain_address(const std::string& text);

// A hint with the nearest candidate (tools::nearest_word); empty when none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rtrs::daemon
