// Files and block devices that were found by name, before they are opened for IO.
#pragma once

#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrsd/access_table.hpp"
#include "tools/urtrsd/open_error.hpp"
#include "tools/urtrsd/unique_fd.hpp"

namespace rtrs::daemon {

// A file, block device or folder that was opened with O_PATH.
struct Located {
  UniqueFd path_fd;
  DeviceId id;
  std::string path;                          // by which it was found
  std::function<UniqueFd(int flags)> again;  // opens that path again, with errno if it fails
};

// Opens the inode that was inspected, with flags of open(2). Where /proc, which leads from the descriptor to
// its inode, is not mounted, opens the path again, and fails with ESTALE if it leads to another inode by now.
UniqueFd reopen(const Located& located, int flags);

// Refuses what cannot be a device: directory, socket, fifo, character device (all ENOTBLK, as the kernel
// server answers for anything but a block device), with a sentence that names the kind. `described` names the
// device.
tl::expected<Located, OpenError> identify(UniqueFd path_fd, const std::string& described);

// Finds a configured file. `described` names its export in sentences.
tl::expected<Located, OpenError> locate_file(const std::string& path, const std::string& described);

// Without symbolic links, also of a file that is missing; `path` itself if it cannot be resolved.
std::string real_path(const std::string& path);
std::string path_of(const Located& located);  // without symbolic links

}  // namespace rtrs::daemon
