// O3: every sector identifies itself. A sector contains its session, the number of the request that wrote it,
// its address, its index in the request, the seed of the run, and a checksum over all of these. A
// never-written sector is all zeros and belongs to request 0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

// A sector is small, because the rules are the same for any size and every simulated byte takes time.
inline constexpr std::size_t kSectorBytes = 64;

struct SectorTag {
  std::uint32_t io = 0;
  std::uint32_t session = 0;
  std::uint64_t lba = 0;
  std::uint32_t index = 0;
  std::uint64_t seed = 0;
};
void write_sector(const SectorTag&, std::span<std::byte> sector) noexcept;
// Returns the request that wrote the sector; nullopt if it is not an intact sector of this run at this
// address.
std::optional<std::uint32_t> writer_of(std::span<const std::byte> sector, std::uint64_t lba,
                                       std::uint64_t seed) noexcept;

class DataIntegrity {
 public:
  DataIntegrity(Judge& judge, std::uint64_t seed) : judge_(judge), seed_(seed) {}
  // Checks that the data for storage is what this request sent.
  void to_storage(std::span<const std::byte> data, std::uint64_t lba, std::uint32_t io, Nanos now);
  // Checks one sector of a completed read. Returns its writer.
  std::uint32_t to_application(std::span<const std::byte> sector, std::uint64_t lba, std::uint32_t io,
                               Nanos now);
  // Checks that memory returned to the application did not change.
  void private_memory(std::uint64_t before, std::uint64_t after, std::uint32_t io, Nanos now);

 private:
  Judge& judge_;
  std::uint64_t seed_;
};

}  // namespace rtrs::sim
