// dev_search_path: the directory in which names from peers are looked up. No name can lead out of the
// directory.
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

// automatic: use openat2(2) if the kernel supports it, else component_walk. component_walk: open each
// component separately and follow no symbolic link; tests select it explicitly.
enum class Confinement : std::uint8_t { automatic, component_walk };

// Builds and confines paths as in protocol section 8.6: a name with ".." is rejected; "%SESSNAME%" in the
// search path is replaced by the session name, and the text after it is ignored. Stricter than the kernel
// server: symbolic links that lead out of the directory are rejected, and a session name must be the name of
// one directory. Each lookup opens the directory again, so it sees a file system mounted there later, or a
// directory that replaced it. Thread-safe.
class SearchPath {
 public:
  explicit SearchPath(std::string path, Confinement how = Confinement::automatic);

  // Opens the directory. Errors: as open(2).
  tl::expected<UniqueFd, OpenError> open() const;

  // Returns an O_PATH descriptor of the file behind `name`, which need not be a device. Errors: EINVAL (bad
  // name), EACCES (leads out of the directory), and those of open(2). `flags` without O_PATH open the file
  // for use; only for callers that know its kind, because opening some devices has side effects.
  tl::expected<UniqueFd, OpenError> locate(std::string_view session, std::string_view name,
                                           int flags = O_PATH | O_CLOEXEC) const;
  std::string path_of(std::string_view session, std::string_view name) const;  // for comparisons only

  const std::string& path() const { return path_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  tl::expected<UniqueFd, OpenError> open_beneath(int directory, const std::string& name, int flags,
                                                 const std::string& described) const;
  std::string path_;    // as configured
  std::string prefix_;  // part before %SESSNAME%; without that token the whole path
  bool per_session_ = false;
  bool kernel_confines_ = false;
  std::vector<std::string> warnings_;
};

}  // namespace rtrs::daemon
