// Converts requests of a front end (read, write, trim, ... of any length) to IO messages of one device.
// Stateless.
#pragma once
#include <cstdint>

#include "core/rnbd/geometry.hpp"
#include "core/wire/bytes.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::rnbd {

// One IO message: whole logical blocks, `bytes` > 0; a flush has neither sector nor bytes.
struct IoPiece {
  wire::rnbd::Opcode opcode = wire::rnbd::Opcode::read;
  std::uint64_t sector = 0;  // unit: 512 bytes
  std::uint32_t bytes = 0;
  bool fua = false;  // writes only
  // write_zeroes only: the blocks stay allocated. A server without this flag (see Geometry::features; also
  // any kernel server before RNBD minor version 2) zeroes the blocks and may free them.
  bool nounmap = false;
  std::uint16_t prio = 0;  // Linux ioprio; a server of RNBD version 1 does not honour it
};

// Writes the 32-byte user header with the flags that a kernel client would send; returns how to send it.
// `out` must hold wire::rnbd::kIoBytes. A flush is sent as a read without data, discard and write-zeroes as
// writes without data: the RTRS request then has an empty data span.
[[nodiscard]] wire::rnbd::Framing encode_io(std::uint32_t device_id, const IoPiece& piece,
                                            wire::MutableBytes out) noexcept;

// check_io() for a piece: returns the errno that the server would answer.
[[nodiscard]] std::uint16_t check_piece(const Geometry& geometry, bool writable,
                                        const IoPiece& piece) noexcept;

// Number of the remaining `bytes` of a request that the next message may carry: whole logical blocks, within
// the session's max_io_size (bytes) for read and write, within the device's limit for discard and
// write-zeroes. Returns 0 if no block fits, and for flush, which has no pieces.
[[nodiscard]] std::uint32_t next_piece(const Geometry& geometry, std::uint32_t max_io_size,
                                       wire::rnbd::Opcode opcode, std::uint64_t bytes) noexcept;

// How a write is made durable on this device.
enum class Durability : std::uint8_t {
  as_written,  // no volatile cache: nothing to do
  fua,         // set IoPiece::fua
  flush,       // no FUA: a flush after the write completed
};
[[nodiscard]] Durability durability(const Geometry& geometry) noexcept;

}  // namespace rtrs::rnbd
