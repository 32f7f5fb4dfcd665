// Number that identifies the cache which holds unflushed writes to an export; sent to peers (docs/rnbd.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tools/urtrsd/storage/access_table.hpp"

namespace rtrs::daemon {

// The kernel caches files and block devices: that cache survives this process and is lost with the host. A
// memory device is lost with the process. Not thread-safe.
class CacheIdentity {
 public:
  // `boot`: text that identifies the running kernel; empty: unknown. `process`: number that no other process
  // has.
  CacheIdentity(std::string boot, std::uint64_t process) : boot_(std::move(boot)), process_(process) {}
  // Identity of this host and process; `boot` is read from /proc/sys/kernel/random/boot_id.
  static CacheIdentity of_system();

  // Returns 0 if unknown. `sequence` distinguishes disks that had the same device number in succession; 0 for
  // files and memory.
  std::uint64_t instance(const DeviceId&, std::uint64_t sequence) const;
  // After a failed sync, earlier writes may be lost although the kernel keeps running: the device gets a new
  // instance number for the rest of this process.
  void on_failed_sync(const DeviceId& id) { ++failed_syncs_[id]; }

  bool knows_host() const { return !boot_.empty(); }

 private:
  std::string boot_;
  std::uint64_t process_;
  std::map<DeviceId, std::uint64_t> failed_syncs_;
};

}  // namespace rtrs::daemon
