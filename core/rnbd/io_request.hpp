// Converts requests of a front end (read, write, trim, ... of any length) to IO messages of one device.
// Stateless.
#pragma once
#include <cstdint>

#include "core/rnbd/geometry.hpp"
#include "core/wire/bytes.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::rnbd {

using IoPiece [[deprecated("use wire::rnbd::Io")]] = wire::rnbd::Io;

// Writes the 32-byte user header with the flags that a kernel client would send, and NOUNMAP only for
// write_zeroes; returns how to send the message. `io`: whole logical blocks, `size` > 0; a flush has neither
// sector nor size. `out` must hold wire::rnbd::kIoBytes. A flush is sent as a read without data, discard and
// write-zeroes as writes without data: the RTRS request then has an empty data span.
[[nodiscard]] wire::rnbd::Framing encode_io(wire::rnbd::Io io, wire::MutableBytes out) noexcept;

// Returns how many of the remaining `bytes` of a request the next message may carry: whole logical blocks,
// within the session's max_io_size (bytes) for read and write, within the device's limit for discard and
// write-zeroes. Returns 0 if no block fits, and for flush, which has no pieces.
[[nodiscard]] std::uint32_t next_piece(const Geometry& geometry, std::uint32_t max_io_size,
                                       wire::rnbd::Opcode opcode, std::uint64_t bytes) noexcept;

// Method to make a write durable on this device.
enum class Durability : std::uint8_t {
  as_written,  // no volatile cache, so the write is durable when it completes
  fua,         // set wire::rnbd::Io::fua
  flush,       // no FUA: send a flush after the write has completed
};
[[nodiscard]] Durability durability(const Geometry& geometry) noexcept;

}  // namespace rtrs::rnbd
