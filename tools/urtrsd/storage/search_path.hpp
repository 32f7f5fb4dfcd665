// Looks up names from peers in the directory dev_search_path. No name can lead out of this directory.
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

// How lookups are confined to the directory. automatic: with openat2(2) if the kernel supports it, otherwise
// as component_walk. component_walk: open each path component separately and follow no symbolic links; tests
// select it explicitly.
enum class Confinement : std::uint8_t { automatic, component_walk };

// Forms and confines paths as protocol section 8.6 defines: rejects a name with "..", replaces "%SESSNAME%"
// in the search path with the session name, and ignores the text after "%SESSNAME%". In addition to the
// kernel server, rejects symbolic links that lead out of the directory, and session names that are not the
// name of a single directory. Each lookup opens the directory again, so that it sees a file system mounted
// there later, or a new directory with the same path. Thread-safe.
class SearchPath {
 public:
  explicit SearchPath(std::string path, Confinement how = Confinement::automatic);

  // Opens the directory. The errors are those of open(2).
  tl::expected<UniqueFd, OpenError> open() const;

  // Returns an O_PATH descriptor of the file that has this name, which need not be a device. Errors: EINVAL
  // (invalid name), EACCES (the name leads out of the directory), and the errors of open(2). `flags` without
  // O_PATH open the file for use. Pass such flags only if the kind of the file is known, because opening some
  // devices has side effects.
  tl::expected<UniqueFd, OpenError> locate(std::string_view session, std::string_view name,
                                           int flags = O_PATH | O_CLOEXEC) const;
  // Returns the path of a name, for comparisons only.
  std::string path_of(std::string_view session, std::string_view name) const;

  const std::string& path() const { return path_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  tl::expected<UniqueFd, OpenError> open_beneath(int directory, const std::string& name, int flags,
                                                 const std::string& described) const;
  std::string path_;    // path as configured
  std::string prefix_;  // part before %SESSNAME%; the whole path if that is absent
  bool per_session_ = false;
  bool kernel_confines_ = false;
  std::vector<std::string> warnings_;
};

}  // namespace rtrs::daemon
