// Computes the number that identifies the cache that holds the unflushed writes to an export. Clients receive
// the number (docs/rnbd.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tools/urtrsd/storage/access_table.hpp"

namespace rtrs::daemon {

// Files and block devices are cached by the kernel, so their unflushed writes survive this process and are
// lost with the host. Memory devices are lost with the process. Not thread-safe.
class CacheIdentity {
 public:
  // `boot` is a text that identifies the running kernel; empty: unknown. `process` is a number that is unique
  // to this process.
  CacheIdentity(std::string boot, std::uint64_t process) : boot_(std::move(boot)), process_(process) {}
  // Identity for this host and this process. The text `boot` is read from /proc/sys/kernel/random/boot_id.
  static CacheIdentity of_system();

  // Returns the number for the cache of a device; 0 if unknown. `sequence` distinguishes disks that used the
  // same device number one after the other; it is 0 for files and memory.
  std::uint64_t instance(const DeviceId&, std::uint64_t sequence) const;
  // After a failed sync, earlier writes may be lost although the kernel keeps running. Therefore the device
  // gets a new instance number for the rest of the lifetime of this process.
  void on_failed_sync(const DeviceId& id) { ++failed_syncs_[id]; }

  bool knows_host() const { return !boot_.empty(); }

 private:
  std::string boot_;
  std::uint64_t process_;
  std::map<DeviceId, std::uint64_t> failed_syncs_;
};

}  // namespace rtrs::daemon
