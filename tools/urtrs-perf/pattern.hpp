// Format of the requests of urtrs-perf: a header with options for the server, and data that both sides can
// compute, so that neither side has to store data.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace rtrs::perf {

struct PerfHeader {
  static constexpr std::size_t kBytes = 24;
  bool verify = false;       // the data must equal the pattern for (offset, seed)
  std::uint64_t offset = 0;  // in bytes
  std::uint64_t seed = 0;    // different for each request
};

// Writes PerfHeader::kBytes bytes to `out`, which must be large enough.
void encode(const PerfHeader&, std::span<std::byte> out) noexcept;
// Returns nullopt if the bytes are not a valid header.
std::optional<PerfHeader> parse_header(std::span<const std::byte>) noexcept;

void fill_pattern(std::span<std::byte>, std::uint64_t offset, std::uint64_t seed) noexcept;
// Returns the index of the first byte that differs from the pattern; nullopt if all bytes match.
std::optional<std::size_t> first_difference(std::span<const std::byte>, std::uint64_t offset,
                                            std::uint64_t seed) noexcept;

}  // namespace rtrs::perf
