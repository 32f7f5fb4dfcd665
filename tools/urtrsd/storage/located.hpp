// Files and block devices found by name but not yet opened for IO.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrsd/storage/access_table.hpp"
#include "tools/urtrsd/storage/open_error.hpp"
#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {

// A file, block device or directory opened with O_PATH.
struct Located {
  UniqueFd path_fd;
  DeviceId id;
  std::string path;                          // path that was looked up
  std::function<UniqueFd(int flags)> again;  // opens that path again; sets errno on failure
};

// Opens the inspected inode with flags of open(2), through /proc. Without /proc it opens the path again, and
// fails with ESTALE if the path now names another inode.
UniqueFd reopen(const Located& located, int flags);

// Rejects files that cannot be a device: directory, socket, fifo, character device. The error is ENOTBLK,
// which the kernel server returns for everything but a block device; the text names the kind. `described`
// names the device.
tl::expected<Located, OpenError> identify(UniqueFd path_fd, const std::string& described);

// Finds a configured file. `described` names its export in error texts.
tl::expected<Located, OpenError> locate_file(const std::string& path, const std::string& described);

// Path without symbolic links, also for a missing file; `path` itself if it cannot be resolved.
std::string real_path(const std::string& path);
std::string path_of(const Located& located);  // without symbolic links

}  // namespace rtrs::daemon
