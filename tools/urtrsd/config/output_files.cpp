#include "tools/urtrsd/config/output_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "core/record/writer.hpp"

namespace rtrs::daemon {
namespace {

std::filesystem::path real(const std::string& path) {
  std::error_code error;
  auto result = std::filesystem::weakly_canonical(path, error);
  return error ? std::filesystem::path(path) : result;
}

// Returns 0 if the file at `path` (or at the target of a symbolic link) exists or could be created, otherwise
// an errno.
int path_errno(std::filesystem::path path) {
  std::error_code error;
  for (int links = 0; links < 40 && std::filesystem::is_symlink(path, error); ++links)
    path = path.parent_path() / std::filesystem::read_symlink(path, error);
  if (std::filesystem::exists(path, error)) return 0;
  // The trailing "." makes faccessat() fail if the parent is not a directory.
  const std::filesystem::path folder = (path.has_parent_path() ? path.parent_path() : ".") / ".";
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

}  // namespace

std::string trace_path_problem(const Catalog& catalog, const std::string& path) {
  if (const std::string name = catalog.exported_as(path); !name.empty())
    return "it is the file of export " + in_quotes(name) + "; choose another file";
  if (const int error = trace::may_replace(path.c_str())) return trace::file_error_text(error);
  if (const int error = path_errno(path))
    return "its folder: " + trace::file_error_text(error) + "; create the folder, or use another file";
  return {};
}

std::vector<std::string> output_file_problems(const DaemonConfig& config, const Catalog& catalog) {
  std::vector<std::string> problems;
  const auto look_at = [&](const char* key, const std::string& path) {
    if (path.empty()) return;
    if (const std::string why = trace_path_problem(catalog, path); !why.empty())
      problems.push_back(std::string(key) + ": " + in_quotes(path) + " cannot be written: " + why);
  };
  look_at("trace", config.trace);
  look_at("trace_dump", config.trace_dump);
  if (!config.trace.empty() && !config.trace_dump.empty() && real(config.trace) == real(config.trace_dump))
    problems.push_back("trace and trace_dump are the same file " + in_quotes(config.trace) +
                       "; a dump would replace the trace while it is written");
  return problems;
}

}  // namespace rtrs::daemon
