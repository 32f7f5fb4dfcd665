// Finds how this host uses a block device or an image file, for messages: mounts, swap, device-mapper, md and
// other stacked devices, loop devices.
#pragma once

#include <filesystem>
#include <string>
#include <utility>

#include "tools/urtrsd/storage/export.hpp"

namespace rtrs::daemon {

// Reads kernel files below `root`, which is empty except in tests.
class HostHolders {
 public:
  explicit HostHolders(std::string root = {}) : root_(std::move(root)) {}
  // Example: "mounted at \"/srv\", dm-0 (vg-data)"; empty if no use was found. Mounts in other namespaces and
  // exclusive opens by processes are not found. Partitions of the device and the disk of a partition count
  // too, because the kernel rejects a claim on a disk while one of its partitions is claimed.
  std::string of_device(unsigned major, unsigned minor) const;
  // Loop devices that may write to the regular file; empty if there are none.
  std::string of_file(const std::string& path) const;

 private:
  std::string root_;
};

// First line without the line feed; empty if the file cannot be read.
std::string first_line(const std::filesystem::path& path);

// Current uses of the device or file on this host.
std::string host_holders(const Located& located);

// Returns "DESCRIBED is in use by this host: HOLDERS; ..." with advice. `holders` may be empty.
std::string in_use_by_host(const std::string& described, const std::string& holders);

}  // namespace rtrs::daemon
