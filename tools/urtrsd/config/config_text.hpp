// Text helpers of the configuration: booleans, addresses, spelling hints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrs::daemon {

std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<bool> parse_boolean(std::string_view text);  // accepts true false yes no on off 1 0
bool is_ip_address(const std::string& text);               // may have a scope: "fe80::1%eth0"
bool is_host_name(const std::string& text);
// Canonical spelling of an address: "::1" for "0:0:0:0:0:0:0:1", "10.0.0.1" for "::ffff:10.0.0.1". Keeps the
// prefix "gid:" and the scope.
std::string plain_address(const std::string& text);

// Returns a hint with the candidate that is most similar to `word` (tools::nearest_word); empty if no
// candidate is similar.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace rtrs::daemon
