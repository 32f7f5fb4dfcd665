#include "core/rnbd/geometry.hpp"

#include <bit>

#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd {
namespace {

using namespace wire::linux_errno;
using wire::rnbd::Opcode;

constexpr std::uint32_t kMaxBlockBytes = 32768;

constexpr std::uint16_t to_u16(std::uint32_t value, std::uint16_t otherwise) noexcept {
  return value > 0xffff ? otherwise : static_cast<std::uint16_t>(value);
}

bool can_do(const Geometry& geometry, Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::read:
    case Opcode::write:
    case Opcode::flush:
      return true;
    case Opcode::discard:
      return geometry.max_discard_sectors != 0;
    case Opcode::write_zeroes:
      return geometry.max_write_zeroes_sectors != 0;
    case Opcode::secure_erase:
      break;
  }
  return false;
}

}  // namespace

bool valid(const Geometry& geometry) noexcept {
  const std::uint32_t block = geometry.logical_block_size;
  if (block < wire::rnbd::kSectorBytes || block > kMaxBlockBytes || !std::has_single_bit(block)) return false;
  return geometry.nsectors < wire::rnbd::kMaxSectors &&
         geometry.nsectors % (block / wire::rnbd::kSectorBytes) == 0;
}

wire::rnbd::OpenRsp make_open_rsp(std::uint32_t device_id, const Geometry& geometry,
                                  std::uint64_t instance) noexcept {
  wire::rnbd::OpenRsp response;
  response.instance = instance;
  response.device_id = device_id;
  response.nsectors = geometry.nsectors;
  response.max_hw_sectors = geometry.max_hw_sectors;
  response.max_write_zeroes_sectors = geometry.max_write_zeroes_sectors;
  response.max_discard_sectors = geometry.max_discard_sectors;
  response.discard_granularity = geometry.discard_granularity;
  response.discard_alignment = geometry.discard_alignment;
  response.physical_block_size = to_u16(geometry.physical_block_size, 0);
  response.logical_block_size = to_u16(geometry.logical_block_size, 0);
  response.max_segments = to_u16(geometry.max_segments, 0xffff);
  response.cache_policy = static_cast<std::uint8_t>((geometry.fua ? wire::rnbd::kCacheFua : 0) |
                                                    (geometry.write_cache ? wire::rnbd::kCacheWriteback : 0));
  response.features = geometry.features;
  return response;
}

Geometry geometry_of(const wire::rnbd::OpenRsp& response) noexcept {
  Geometry geometry;
  geometry.nsectors = response.nsectors;
  geometry.logical_block_size = response.logical_block_size;
  geometry.physical_block_size = response.physical_block_size;
  geometry.max_hw_sectors = response.max_hw_sectors;
  geometry.max_segments = response.max_segments;
  geometry.max_discard_sectors = response.max_discard_sectors;
  geometry.max_write_zeroes_sectors = response.max_write_zeroes_sectors;
  geometry.discard_granularity = response.discard_granularity;
  geometry.discard_alignment = response.discard_alignment;
  geometry.write_cache = (response.cache_policy & wire::rnbd::kCacheWriteback) != 0;
  geometry.fua = geometry.write_cache && (response.cache_policy & wire::rnbd::kCacheFua) != 0;
  geometry.features = response.features;
  return geometry;
}

std::uint16_t check_io(const Geometry& geometry, bool writable, const wire::rnbd::Io& io) noexcept {
  if (!can_do(geometry, io.opcode)) return kEopnotsupp;
  if (io.opcode == Opcode::flush) return 0;
  if (io.opcode != Opcode::read && !writable) return kEperm;
  const std::uint32_t block = geometry.logical_block_size;
  const std::uint32_t block_sectors = block / wire::rnbd::kSectorBytes;
  if (io.size == 0 || (io.size & (block - 1)) != 0 || (io.sector & (block_sectors - 1)) != 0) return kEinval;
  const std::uint64_t sectors = io.size / wire::rnbd::kSectorBytes;
  if (io.sector > geometry.nsectors || sectors > geometry.nsectors - io.sector) return kEio;
  return 0;
}

std::uint16_t to_wire_errno(int error) noexcept {
  if (error < 0 || error > kMaxWireErrno) return kEio;
  return static_cast<std::uint16_t>(error);
}

}  // namespace rtrs::rnbd
