// The subcommands of urtrs-replay. Each prints its own errors and answers the exit code.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace rtrs::tool {

enum ExitCode : int {
  exit_ok = 0,
  exit_bad_trace = 1,    // diverged or damaged
  exit_usage = 2,        // wrong arguments, or a file that cannot be opened
  exit_cannot_read = 3,  // not replayable: no trace, another version, or the beginning is missing
};

struct CatOptions {
  std::string file;
  bool json = false;
  std::optional<std::uint64_t> last;
  std::optional<std::uint16_t> instance;
};
int cat(const CatOptions& options);

struct FileOptions {
  std::string file;
  bool json = false;
};
int replay(const FileOptions& options);
int stat(const FileOptions& options);

struct ImportOptions {
  std::string from;
  std::string to;
};
int from_json(const ImportOptions& options);

}  // namespace rtrs::tool
