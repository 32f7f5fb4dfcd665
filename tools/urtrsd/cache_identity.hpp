// Which cache holds what peers wrote to an export and did not flush, told to them as a number (docs/rnbd.md).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tools/urtrsd/access_table.hpp"

namespace rtrs::daemon {

// The cache of a file or block device is that of the running kernel: it outlives this process, and ends with
// the host. A memory device ends with the process. One thread only.
class CacheIdentity {
 public:
  // `boot`: any text that names the running kernel; empty: not known. `process`: a number that no other
  // process has.
  CacheIdentity(std::string boot, std::uint64_t process) : boot_(std::move(boot)), process_(process) {}
  // Of this host and process. The kernel tells in /proc/sys/kernel/random/boot_id.
  static CacheIdentity of_system();

  // 0: not known. `sequence` tells apart disks that had one device number after another; 0 for all else.
  std::uint64_t instance(const DeviceId&, std::uint64_t sequence) const;
  // What was written before may be lost although the kernel goes on: another instance from now on, as long as
  // this process lives.
  void on_failed_sync(const DeviceId& id) { ++failed_syncs_[id]; }

  bool knows_host() const { return !boot_.empty(); }

 private:
  std::string boot_;
  std::uint64_t process_;
  std::map<DeviceId, std::uint64_t> failed_syncs_;
};

}  // namespace rtrs::daemon
