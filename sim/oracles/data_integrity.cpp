#include "sim/oracles/data_integrity.hpp"

#include <array>
#include <cstring>

#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

namespace {

using Words = std::array<std::uint64_t, kSectorBytes / 8>;
static_assert(sizeof(Words) == kSectorBytes);

Words encode(const SectorTag& tag) {
  Words words{};
  words[0] = std::uint64_t{tag.session} << 32 | tag.io;
  words[1] = tag.lba;
  words[2] = tag.index;
  words[3] = tag.seed;
  for (std::size_t at = 4; at + 1 < words.size(); ++at)
    words[at] = words[at - 1] * 0x9e3779b97f4a7c15ULL + words[0] + at;
  std::uint64_t sum = 0x7365637472ULL;
  for (std::size_t at = 0; at + 1 < words.size(); ++at) sum = (sum ^ words[at]) * 0x9ddfea08eb382d69ULL;
  words.back() = mix(sum);
  return words;
}

}  // namespace

void write_sector(const SectorTag& tag, std::span<std::byte> sector) noexcept {
  const Words words = encode(tag);
  std::memcpy(sector.data(), words.data(), kSectorBytes);
}

std::optional<std::uint32_t> writer_of(std::span<const std::byte> sector, std::uint64_t lba,
                                       std::uint64_t seed) noexcept {
  Words words;
  std::memcpy(words.data(), sector.data(), kSectorBytes);
  if (words == Words{}) return 0;
  SectorTag tag;
  tag.io = static_cast<std::uint32_t>(words[0]);
  tag.session = static_cast<std::uint32_t>(words[0] >> 32);
  tag.lba = lba;
  tag.index = static_cast<std::uint32_t>(words[2]);
  tag.seed = seed;
  if (encode(tag) != words || tag.io == 0) return std::nullopt;
  return tag.io;
}

void DataIntegrity::to_storage(std::span<const std::byte> data, std::uint64_t lba, std::uint32_t io,
                               Nanos now) {
  for (std::size_t at = 0; at + kSectorBytes <= data.size(); at += kSectorBytes) {
    const std::uint64_t address = lba + at / kSectorBytes;
    const auto writer = writer_of(data.subspan(at, kSectorBytes), address, seed_);
    if (!writer)
      return judge_.fail(
          Oracle::data_integrity, now,
          "request " + std::to_string(io) + " brings storage a broken sector for " + std::to_string(address));
    if (*writer != io)
      return judge_.fail(Oracle::data_integrity, now,
                         "request " + std::to_string(io) + " brings storage data of request " +
                             std::to_string(*writer) + " for " + std::to_string(address));
  }
}

std::uint32_t DataIntegrity::to_application(std::span<const std::byte> sector, std::uint64_t lba,
                                            std::uint32_t io, Nanos now) {
  const auto writer = writer_of(sector, lba, seed_);
  if (writer) return *writer;
  judge_.fail(Oracle::data_integrity, now,
              "read " + std::to_string(io) + " returned a broken sector for " + std::to_string(lba));
  return 0;
}

void DataIntegrity::private_memory(std::uint64_t before, std::uint64_t after, std::uint32_t io, Nanos now) {
  if (before != after)
    judge_.fail(Oracle::data_integrity, now,
                "memory of request " + std::to_string(io) + " changed after its completion");
}

}  // namespace rtrs::sim
