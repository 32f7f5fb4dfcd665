// What the kernel says about an opened file or block device.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrsd/export.hpp"

namespace rtrs::daemon {

struct DeviceFacts {
  std::uint64_t size = 0;      // bytes
  bool read_only = false;      // the block device itself refuses writes
  std::uint64_t sequence = 0;  // of a block device: see Export::sequence()
  rnbd::Geometry geometry;
};

// errno on failure. Limits of a block device come from ioctls and /sys/dev/block; what /sys does not say is
// taken as "not supported", and a write cache is then assumed.
tl::expected<DeviceFacts, int> block_device_facts(int fd, dev_t device);
// `tries_hole`: that it can discard is found out, which changes the times of the file.
tl::expected<DeviceFacts, int> file_facts(int fd, bool writable, bool tries_hole);
rnbd::Geometry memory_geometry();

// What an NBD server says of its disk.
struct NbdFacts {
  std::uint64_t size = 0;       // bytes
  std::uint64_t block = 512;    // bytes; the smallest request
  std::uint64_t preferred = 0;  // bytes
  bool cached = false;          // it has a command to flush
  bool discards = false;
};
rnbd::Geometry nbd_geometry(const NbdFacts& facts, bool writable);

}  // namespace rtrs::daemon
