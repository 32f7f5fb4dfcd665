// Capabilities of an open device, and the checks of requests against them. Both sides use the same rules, so
// that the client rejects early what the server would reject later.
#pragma once
#include <cstdint>

#include "core/base/reflect.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::rnbd {

// Contents of OPEN_RSP (protocol section 2.9) without the device id. A sector has 512 bytes.
struct Geometry {
  std::uint64_t nsectors = 0;                  // size of the device in sectors, below 2^54
  std::uint32_t logical_block_size = 512;      // in bytes; a power of two, 512..32768
  std::uint32_t physical_block_size = 512;     // in bytes; a value above 16 bits is sent as 0 (unknown)
  std::uint32_t max_hw_sectors = 0;            // 0: unknown
  std::uint32_t max_segments = 0;              // 0: unknown
  std::uint32_t max_discard_sectors = 0;       // 0: not supported
  std::uint32_t max_write_zeroes_sectors = 0;  // 0: not supported
  std::uint32_t discard_granularity = 0;       // in bytes
  std::uint32_t discard_alignment = 0;         // in bytes
  bool write_cache = false;                    // true: a write needs a flush or FUA to be durable
  bool fua = false;                            // true: FUA makes a single write durable
  std::uint8_t features = 0;  // wire::rnbd::kFeature* bits: IO flags that the server supports
  bool operator==(const Geometry&) const = default;
  RTRS_FIELDS(nsectors, logical_block_size, physical_block_size, max_hw_sectors, max_segments,
              max_discard_sectors, max_write_zeroes_sectors, discard_granularity, discard_alignment,
              write_cache, fua, features)
};

// True if block size and sector count have a wire form and the size is a multiple of the block size.
[[nodiscard]] bool valid(const Geometry& geometry) noexcept;

// Makes an OPEN response. Secure erase is never offered. `instance`: instance of the export's cache; 0:
// unknown.
[[nodiscard]] wire::rnbd::OpenRsp make_open_rsp(std::uint32_t device_id, const Geometry& geometry,
                                                std::uint64_t instance = 0) noexcept;
// Returns the geometry in an OPEN response. Sets `fua` only if the device also has a write cache (protocol
// section 2.9).
[[nodiscard]] Geometry geometry_of(const wire::rnbd::OpenRsp& response) noexcept;

// Returns 0 or the errno for a request on this device: EOPNOTSUPP (secure erase, or an operation that
// the device cannot do), EPERM (a change of a device opened read-only), EINVAL (no bytes, or not whole
// logical blocks), EIO (beyond the end). A flush always fits.
[[nodiscard]] std::uint16_t check_io(const Geometry& geometry, bool writable,
                                     const wire::rnbd::Io& io) noexcept;

// Largest errno in an IO response (protocol section 1.3).
inline constexpr int kMaxWireErrno = 511;
// Converts an errno for a response: negative or too large values become EIO, never 0.
[[nodiscard]] std::uint16_t to_wire_errno(int error) noexcept;

[[nodiscard]] constexpr bool is_writable(wire::rnbd::AccessMode mode) noexcept {
  return mode != wire::rnbd::AccessMode::read_only;
}

}  // namespace rtrs::rnbd
