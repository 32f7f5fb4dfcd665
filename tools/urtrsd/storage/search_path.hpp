// Where peers may find devices: names are looked up under one directory and cannot leave it.
#pragma once

#include <fcntl.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "tools/urtrsd/storage/open_error.hpp"
#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {

// automatic: openat2(2) where the kernel has it. component_walk: every component opened by itself, no
// symbolic link followed at all; what `automatic` falls back to, and what the tests force.
enum class Confinement : std::uint8_t { automatic, component_walk };

// Builds and confines paths as protocol section 8.6 says: a name with ".." is refused, "%SESSNAME%" in the
// search path stands for the session and drops what follows it. Beyond the kernel server, symbolic links that
// leave the directory are refused, and a session name cannot name anything but one directory.
// The directory is opened for each lookup, so that a file system that is mounted there later, or a directory
// that replaces it, is seen. Any thread.
class SearchPath {
 public:
  explicit SearchPath(std::string path, Confinement how = Confinement::automatic);

  // Opens the directory. Errors: as open(2).
  tl::expected<UniqueFd, OpenError> open() const;

  // An O_PATH descriptor of whatever is behind `name`, not yet known to be a device.
  // Errors: EINVAL (bad name), EACCES (leaves the directory), else as open(2).
  // `flags` of open(2) other than O_PATH open it, which only a caller may ask for that knows what it is.
  tl::expected<UniqueFd, OpenError> locate(std::string_view session, std::string_view name,
                                           int flags = O_PATH | O_CLOEXEC) const;
  std::string path_of(std::string_view session, std::string_view name) const;  // for comparisons only

  const std::string& path() const { return path_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  tl::expected<UniqueFd, OpenError> open_beneath(int directory, const std::string& name, int flags,
                                                 const std::string& described) const;
  std::string path_;    // as configured
  std::string prefix_;  // before %SESSNAME%, or all of it
  bool per_session_ = false;
  bool kernel_confines_ = false;
  std::vector<std::string> warnings_;
};

}  // namespace rtrs::daemon
