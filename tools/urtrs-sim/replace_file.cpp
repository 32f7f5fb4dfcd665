#include "tools/urtrs-sim/replace_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace rtrs::sim_tool {

namespace {

int write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    at += static_cast<std::size_t>(wrote);
  }
  return 0;
}

// Makes the rename survive a loss of power. File systems that cannot sync a folder return EINVAL.
int sync_folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : file.substr(0, slash);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) != 0 && errno != EINVAL ? errno : 0;
  ::close(fd);
  return error;
}

struct Target {
  int error = 0;
  std::string file;  // never a symbolic link, because rename() would replace the link
  mode_t mode = 0;
};

// A rename would replace a device such as /dev/null by a file.
Target target_of(const std::string& name) {
  struct stat found {};
  if (::stat(name.c_str(), &found) != 0) {
    const int error = errno == ENOENT ? 0 : errno;
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return {error, name, 0666 & ~mask};
  }
  if (S_ISDIR(found.st_mode)) return {EISDIR, name, 0};
  if (!S_ISREG(found.st_mode)) return {EOPNOTSUPP, name, 0};
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(name, error);
  return {error.value(), file, found.st_mode & 0777};
}

}  // namespace

int can_replace(const std::string& file) {
  const Target target = target_of(file);
  if (target.error != 0) return target.error;
  const std::filesystem::path folder = std::filesystem::path(target.file).parent_path();
  return ::access(folder.empty() ? "." : folder.c_str(), W_OK) != 0 ? errno : 0;
}

int replace_file(const std::string& name, const std::string& text) {
  const Target target = target_of(name);
  if (target.error != 0) return target.error;
  const std::string& file = target.file;
  // The name is unique, because a scheduler may start a task again while its first process still runs.
  std::string temporary = file + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return errno;
  int error = ::fchmod(fd, target.mode) != 0 ? errno : 0;
  if (error == 0) error = write_all(fd, text);
  if (error == 0 && ::fsync(fd) != 0) error = errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), file.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    return error;
  }
  return sync_folder_of(file);
}

std::string cannot_write(const std::string& file, int error) {
  return "cannot write " + file + ": " + std::strerror(error) + " (errno " + std::to_string(error) + ")";
}

}  // namespace rtrs::sim_tool
