// What is written to attributes, parsed as Linux parses it: whether a sign, a base, spaces or newlines around
// it are taken differs from file to file (protocol section 8). The error is a positive errno.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/fabric/fabric.hpp"
#include "core/proto/multipath_policy.hpp"

namespace rtrs::attributes {

// max_reconnect_attempts: decimal, -1 to 9999, one newline behind it. EINVAL; ERANGE: no int holds it.
tl::expected<std::int32_t, int> parse_attempts(std::string_view text);

// resize: sectors, decimal, 0x or octal, one newline behind it. EINVAL; ERANGE: 64 bits do not hold it.
tl::expected<std::uint64_t, int> parse_sectors(std::string_view text);

// mpath_policy: 0, 1, 2, rr, mi or ml with one newline behind it; or what begins with a long name.
std::optional<MultipathPolicy> parse_policy(std::string_view text);
// As it is read: "min-inflight (MI: 1)\n".
std::string policy_text(MultipathPolicy policy);

// Without white space at both ends.
std::string_view stripped(std::string_view text) noexcept;

// add_path and path= of map_device: [src(,|@)]dst, each "ip:" or "gid:" and a numeric address. EINVAL.
// `unknown_kind`: the errno of a destination without such a prefix.
tl::expected<PathAddress, int> parse_addresses(std::string_view text, std::uint16_t port, int unknown_kind);

}  // namespace rtrs::attributes
