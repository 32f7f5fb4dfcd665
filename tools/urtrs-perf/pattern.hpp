// Requests of urtrs-perf: a header with options for the server, and data that both sides can compute, so that
// neither has to store it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrs::perf {

struct PerfHeader {
  static constexpr std::size_t kBytes = 24;
  bool verify = false;       // the data is the pattern of (offset, seed)
  std::uint64_t offset = 0;  // bytes
  std::uint64_t seed = 0;    // seed of this request
};

// Writes exactly PerfHeader::kBytes to `out`, which must be large enough.
void encode(const PerfHeader&, std::span<std::byte> out) noexcept;
// Returns nullopt if the bytes are not a valid header.
std::optional<PerfHeader> parse_header(std::span<const std::byte>) noexcept;

void fill_pattern(std::span<std::byte>, std::uint64_t offset, std::uint64_t seed) noexcept;
// Index of the first byte that differs from the pattern; nullopt if there is none.
std::optional<std::size_t> first_difference(std::span<const std::byte>, std::uint64_t offset,
                                            std::uint64_t seed) noexcept;

}  // namespace rtrs::perf
