// Finds how this host uses a block device or an image file, for messages: mounts, swap, device-mapper, md and
// other stacked devices, loop devices.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "tools/urtrsd/export.hpp"

namespace rtrs::daemon {

// Files of the kernel below `root`, which is empty but in tests.
class HostHolders {
 public:
  explicit HostHolders(std::string root = {}) : root_(std::move(root)) {}
  // Such as "mounted at \"/srv\", dm-0 (vg-data)"; empty: no use can be found. Uses in other mount namespaces
  // and exclusive opens of processes cannot. Partitions of the device, and the disk of a partition, count,
  // because the kernel lets nobody claim a disk beside its partitions.
  std::string of_device(unsigned major, unsigned minor) const;
  // Loop devices that may write to the regular file; empty: none.
  std::string of_file(const std::string& path) const;

 private:
  std::string root_;
};

// Without the line feed; empty if the file cannot be read.
std::string first_line(const std::filesystem::path& path);

// Of this host now.
std::string host_holders(const Located& located);

// "DESCRIBED is in use by this host: HOLDERS; ...", with what to do. `holders` may be empty.
std::string in_use_by_host(const std::string& described, const std::string& holders);

}  // namespace rtrs::daemon
