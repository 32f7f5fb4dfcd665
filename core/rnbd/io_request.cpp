#include "core/rnbd/io_request.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace rtrs::rnbd {
namespace {

using wire::rnbd::Opcode;

// The largest size field that is still a whole number of the largest logical block.
constexpr std::uint64_t kMaxPieceBytes = std::uint64_t{1} << 31;

wire::rnbd::Io message_of(std::uint32_t device_id, const IoPiece& piece) noexcept {
  wire::rnbd::Io io;
  io.device_id = device_id;
  io.opcode = piece.opcode;
  io.sector = piece.sector;
  io.size = piece.bytes;
  io.fua = piece.fua;
  io.prio = piece.prio;
  io.nounmap = piece.nounmap && piece.opcode == Opcode::write_zeroes;
  return wire::rnbd::with_kernel_flags(io);
}

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

wire::rnbd::Framing encode_io(std::uint32_t device_id, const IoPiece& piece,
                              wire::MutableBytes out) noexcept {
  const wire::rnbd::Io io = message_of(device_id, piece);
  RTRS_ASSERT(wire::rnbd::encode(io, out) == wire::rnbd::kIoBytes);
  return wire::rnbd::io_framing(io);
}

std::uint16_t check_piece(const Geometry& geometry, bool writable, const IoPiece& piece) noexcept {
  return check_io(geometry, writable, message_of(0, piece));
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
