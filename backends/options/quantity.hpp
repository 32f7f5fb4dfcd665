// Parses durations and sizes in the syntax that every program uses.
#pragma once
#include <tl/expected.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/proto/ids.hpp"

namespace rtrs::options {

// Parses a number, possibly with a fraction, with one of the units ns, us, ms, s, m, min, h; without a unit,
// the number is in seconds. Range: 0 to 876000h (100 years). The error quotes the text and describes the
// syntax of a duration.
tl::expected<Nanos, std::string> parse_duration(std::string_view text);
// Like parse_duration(), but rejects 0.
tl::expected<Nanos, std::string> parse_positive_duration(std::string_view text);

// Parses a size in bytes: a whole number with one of the units k, M, G, T, P, E (either case, powers of
// 1024). "64k", "64K", "64KB" and "64KiB" are the same; "64B" is 64 bytes. Without a unit, the number is in
// units of `plain` bytes.
tl::expected<std::uint64_t, std::string> parse_size(std::string_view text, std::uint64_t plain = 1);

}  // namespace rtrs::options
