// Parsers for the texts written to attributes. Each file follows its rules in Linux and accepts different
// signs, bases, spaces and newlines (docs/protocol.md, section 8). Errors are positive errnos.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/fabric/fabric.hpp"
#include "core/proto/multipath_policy.hpp"

namespace rtrs::attributes {

// Parses max_reconnect_attempts: decimal, -1 to 9999, optional newline. Errors: EINVAL; ERANGE if the number
// does not fit in an int.
tl::expected<std::int32_t, int> parse_attempts(std::string_view text);

// Parses resize: number of sectors, decimal, hexadecimal (0x) or octal, optional newline. Errors: EINVAL;
// ERANGE if the number does not fit in 64 bits.
tl::expected<std::uint64_t, int> parse_sectors(std::string_view text);

// Parses mpath_policy: 0, 1, 2, rr, mi or ml, optional newline; or any text that begins with the long name of
// a policy.
std::optional<MultipathPolicy> parse_policy(std::string_view text);
// Returns the text that reading mpath_policy shows: "min-inflight (MI: 1)\n".
std::string policy_text(MultipathPolicy policy);

// Returns the text without white space at both ends.
std::string_view stripped(std::string_view text) noexcept;

// Parses add_path, and path= of map_device: [src(,|@)]dst, each "ip:" or "gid:" and a numeric address.
// Errors: EINVAL, or `unknown_kind` for a destination without such a prefix.
tl::expected<PathAddress, int> parse_addresses(std::string_view text, std::uint16_t port, int unknown_kind);

}  // namespace rtrs::attributes
