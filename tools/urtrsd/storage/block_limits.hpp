// Size and limits of an opened file, block device or NBD server, as the kernel or the server reports them.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrsd/storage/export.hpp"

namespace rtrs::daemon {

struct DeviceFacts {
  std::uint64_t size = 0;      // bytes
  bool read_only = false;      // the block device rejects writes
  std::uint64_t sequence = 0;  // block device only; see Export::sequence()
  rnbd::Geometry geometry;
};

// Returns an errno on failure. Limits come from ioctls and /sys/dev/block. A limit that /sys does not have
// counts as "not supported"; a write cache is then assumed.
tl::expected<DeviceFacts, int> block_device_facts(int fd, dev_t device);
// `tries_hole`: punches a hole to find out whether the file supports discard, which changes the file's times.
tl::expected<DeviceFacts, int> file_facts(int fd, bool writable, bool tries_hole);
rnbd::Geometry memory_geometry();

// Properties of a disk that its NBD server reports.
struct NbdFacts {
  std::uint64_t size = 0;       // bytes
  std::uint64_t block = 512;    // bytes; minimum request size
  std::uint64_t preferred = 0;  // bytes
  bool cached = false;          // the server supports flush
  bool discards = false;
};
rnbd::Geometry nbd_geometry(const NbdFacts& facts, bool writable);

}  // namespace rtrs::daemon
