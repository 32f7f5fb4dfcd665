// Size and limits of an opened file, of a block device, or of a disk at an NBD server, as reported by the
// kernel or the server.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrsd/storage/export.hpp"

namespace rtrs::daemon {

struct DeviceFacts {
  std::uint64_t size = 0;      // in bytes
  bool read_only = false;      // the block device rejects writes
  std::uint64_t sequence = 0;  // block device only; see Export::sequence()
  rnbd::Geometry geometry;
};

// Reads the limits of a block device with ioctls and from /sys/dev/block; returns an errno on failure. If
// /sys lacks a limit, the operation counts as not supported; if it does not say whether there is a write
// cache, a cache is assumed.
tl::expected<DeviceFacts, int> block_device_facts(int fd, dev_t device);
// If `tries_hole`, punches a hole to find out whether the file supports discard. That changes the times of
// the file.
tl::expected<DeviceFacts, int> file_facts(int fd, bool writable, bool tries_hole);
rnbd::Geometry memory_geometry();

// Properties of a disk that its NBD server reports.
struct NbdFacts {
  std::uint64_t size = 0;       // in bytes
  std::uint64_t block = 512;    // in bytes; minimum request size
  std::uint64_t preferred = 0;  // in bytes
  bool cached = false;          // the server supports flush
  bool discards = false;
};
rnbd::Geometry nbd_geometry(const NbdFacts& facts, bool writable);

}  // namespace rtrs::daemon
