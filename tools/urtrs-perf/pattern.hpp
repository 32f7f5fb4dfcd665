// What urtrs-perf sends: a header that tells the server what to do, and data that both sides can compute, so
// that neither needs to remember what it sent.
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
  std::uint64_t seed = 0;    // of this request
};

// `out`: at least PerfHeader::kBytes, of which exactly so many are written.
void encode(const PerfHeader&, std::span<std::byte> out) noexcept;
// Nothing when the bytes are not such a header.
std::optional<PerfHeader> parse_header(std::span<const std::byte>) noexcept;

void fill_pattern(std::span<std::byte>, std::uint64_t offset, std::uint64_t seed) noexcept;
// Index of the first byte that is not the pattern's.
std::optional<std::size_t> first_difference(std::span<const std::byte>, std::uint64_t offset,
                                            std::uint64_t seed) noexcept;

}  // namespace rtrs::perf
