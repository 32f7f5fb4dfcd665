// Finds out, for messages, how this host uses a block device or an image file: mounts, swap, device-mapper,
// md and other stacked devices, and loop devices.
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
  // Describes the uses of a device, for example "mounted at \"/srv\", dm-0 (vg-data)"; empty if none was
  // found. Does not find mounts in other namespaces and exclusive opens by processes. Includes uses of the
  // partitions of the device, or of the disk of a partition, because the kernel rejects a claim on a disk
  // while a partition of it is claimed.
  std::string of_device(unsigned major, unsigned minor) const;
  // Describes the loop devices that may write to a regular file; empty if there are none.
  std::string of_file(const std::string& path) const;

 private:
  std::string root_;
};

// Returns the first line of a file without the line feed; empty if the file cannot be read.
std::string first_line(const std::filesystem::path& path);

// Describes how this host uses the device or file now.
std::string host_holders(const Located& located);

// Returns "DESCRIBED is in use by this host: HOLDERS; ...", followed by advice. `holders` may be empty.
std::string in_use_by_host(const std::string& described, const std::string& holders);

}  // namespace rtrs::daemon
