// Files and block devices that were found by name but are not yet open for IO.
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
  std::function<UniqueFd(int flags)> again;  // opens `path` again; sets errno on failure
};

// Opens the located inode for IO, with flags of open(2), through /proc. Without /proc, opens the path again
// and fails with ESTALE if the path now names a different inode.
UniqueFd reopen(const Located& located, int flags);

// Rejects files that cannot be exported: directories, sockets, fifos and character devices. The error is
// ENOTBLK, which the kernel server returns for everything but a block device; its text names the kind of
// file. `described` names the device in the text.
tl::expected<Located, OpenError> identify(UniqueFd path_fd, const std::string& described);

// Opens a configured file with O_PATH. `described` names the export in error texts.
tl::expected<Located, OpenError> locate_file(const std::string& path, const std::string& described);

// Resolves symbolic links, even if the file itself does not exist; returns `path` unchanged if that fails.
std::string real_path(const std::string& path);
std::string path_of(const Located& located);  // path without symbolic links

}  // namespace rtrs::daemon
