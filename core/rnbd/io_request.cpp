#include "core/rnbd/io_request.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace rtrs::rnbd {
namespace {

using wire::rnbd::Opcode;

// The largest 32-bit size that is a multiple of the largest logical block.
constexpr std::uint64_t kMaxPieceBytes = std::uint64_t{1} << 31;

std::uint64_t limit_of(const Geometry& geometry, std::uint32_t max_io_size, Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::read:
    case Opcode::write:
      return max_io_size;
    case Opcode::discard:
      return std::uint64_t{geometry.max_discard_sectors} * wire::rnbd::kSectorBytes;
    case Opcode::write_zeroes:
      return std::uint64_t{geometry.max_write_zeroes_sectors} * wire::rnbd::kSectorBytes;
    case Opcode::flush:
    case Opcode::secure_erase:
      break;
  }
  return 0;
}

}  // namespace

wire::rnbd::Framing encode_io(wire::rnbd::Io io, wire::MutableBytes out) noexcept {
  io.nounmap = io.nounmap && io.opcode == Opcode::write_zeroes;
  io = wire::rnbd::with_kernel_flags(io);
  RTRS_ASSERT(wire::rnbd::encode(io, out) == wire::rnbd::kIoBytes);
  return wire::rnbd::io_framing(io);
}

std::uint32_t next_piece(const Geometry& geometry, std::uint32_t max_io_size, Opcode opcode,
                         std::uint64_t bytes) noexcept {
  const std::uint64_t most = std::min({bytes, limit_of(geometry, max_io_size, opcode), kMaxPieceBytes});
  return static_cast<std::uint32_t>(most - most % geometry.logical_block_size);
}

Durability durability(const Geometry& geometry) noexcept {
  if (!geometry.write_cache) return Durability::as_written;
  return geometry.fua ? Durability::fua : Durability::flush;
}

}  // namespace rtrs::rnbd
