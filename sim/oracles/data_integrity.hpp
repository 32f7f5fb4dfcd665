// O3: every sector on its way tells what it is. A sector carries its session, the number of the request that
// wrote it, its address, its index in the request, the seed of the run, and a checksum over all of it; the
// never-written sector is all zeros and belongs to request 0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

// Small, because the rules are the same for any size and every simulated byte takes time.
inline constexpr std::size_t kSectorBytes = 64;

struct SectorTag {
  std::uint32_t io = 0;
  std::uint32_t session = 0;
  std::uint64_t lba = 0;
  std::uint32_t index = 0;
  std::uint64_t seed = 0;
};
void write_sector(const SectorTag&, std::span<std::byte> sector) noexcept;
// The request that wrote the sector; nothing when it is not a whole sector of this run at this address.
std::optional<std::uint32_t> writer_of(std::span<const std::byte> sector, std::uint64_t lba,
                                       std::uint64_t seed) noexcept;

class DataIntegrity {
 public:
  DataIntegrity(Judge& judge, std::uint64_t seed) : judge_(judge), seed_(seed) {}
  // What storage is about to write must be what this request sent.
  void to_storage(std::span<const std::byte> data, std::uint64_t lba, std::uint32_t io, Nanos now);
  // One sector of a completed read; its writer.
  std::uint32_t to_application(std::span<const std::byte> sector, std::uint64_t lba, std::uint32_t io,
                               Nanos now);
  // Memory that belongs to the application again must stay as it was left.
  void private_memory(std::uint64_t before, std::uint64_t after, std::uint32_t io, Nanos now);

 private:
  Judge& judge_;
  std::uint64_t seed_;
};

}  // namespace rtrs::sim
