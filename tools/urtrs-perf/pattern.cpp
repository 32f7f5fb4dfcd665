#include "tools/urtrs-perf/pattern.hpp"

#include <algorithm>
#include <cstring>

#include "core/wire/bytes.hpp"

namespace rtrs::perf {
namespace {

constexpr std::uint32_t kMagic = 0x46525055;  // "UPRF"
constexpr std::uint32_t kVerify = 1;

std::uint64_t word_at(std::uint64_t offset, std::uint64_t seed) noexcept {
  std::uint64_t word = (offset ^ seed) * 0x9e3779b97f4a7c15u + seed;
  word ^= word >> 32;
  return word * 0xd6e8feb86659fd93u;
}

}  // namespace

void encode(const PerfHeader& header, std::span<std::byte> out) noexcept {
  wire::store_le32(out, 0, kMagic);
  wire::store_le32(out, 4, header.verify ? kVerify : 0);
  wire::store_le64(out, 8, header.offset);
  wire::store_le64(out, 16, header.seed);
}

std::optional<PerfHeader> parse_header(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() != PerfHeader::kBytes || wire::load_le32(bytes, 0) != kMagic) return std::nullopt;
  const std::uint32_t flags = wire::load_le32(bytes, 4);
  if ((flags & ~kVerify) != 0) return std::nullopt;
  return PerfHeader{flags == kVerify, wire::load_le64(bytes, 8), wire::load_le64(bytes, 16)};
}

void fill_pattern(std::span<std::byte> data, std::uint64_t offset, std::uint64_t seed) noexcept {
  for (std::size_t at = 0; at < data.size(); at += 8) {
    const std::uint64_t word = word_at(offset + at, seed);
    std::memcpy(data.data() + at, &word, std::min<std::size_t>(8, data.size() - at));
  }
}

std::optional<std::size_t> first_difference(std::span<const std::byte> data, std::uint64_t offset,
                                            std::uint64_t seed) noexcept {
  for (std::size_t at = 0; at < data.size(); at += 8) {
    const std::uint64_t word = word_at(offset + at, seed);
    const std::size_t length = std::min<std::size_t>(8, data.size() - at);
    if (std::memcmp(data.data() + at, &word, length) == 0) continue;
    const auto* expected = reinterpret_cast<const std::byte*>(&word);
    return at + static_cast<std::size_t>(std::mismatch(expected, expected + length, data.data() + at).first -
                                         expected);
  }
  return std::nullopt;
}

}  // namespace rtrs::perf
