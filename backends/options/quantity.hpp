// Durations and sizes as users write them, the same in every program.
#pragma once
#include <tl/expected.hpp>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/proto/ids.hpp"

namespace rtrs::options {

// A number, with a fraction or without, and one of ns, us, ms, s, m, min, h; a number alone is in seconds. 0
// to 876000h, a hundred years. The error names the text and says what a duration is.
tl::expected<Nanos, std::string> parse_duration(std::string_view text);
// Like parse_duration(), but rejects 0.
tl::expected<Nanos, std::string> parse_positive_duration(std::string_view text);

// Bytes: a whole number and one of k, M, G, T, P, E in either case, powers of 1024; "64k", "64K", "64KB" and
// "64KiB" are the same. A number alone is in units of `plain` bytes, "64B" is 64 bytes.
tl::expected<std::uint64_t, std::string> parse_size(std::string_view text, std::uint64_t plain = 1);

}  // namespace rtrs::options
