#include "tools/urtrsd/storage/located.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

namespace rtrs::daemon {
namespace {

const char* kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISCHR(mode)) return "a character device";
  return "neither a file nor a block device";
}

std::optional<DeviceId> id_of(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return DeviceId{ExportKind::file, status.st_dev, status.st_ino};
  if (S_ISBLK(status.st_mode))
    return DeviceId{ExportKind::block_device, major(status.st_rdev), minor(status.st_rdev)};
  return std::nullopt;
}

std::string descriptor_path(const Located& located) {
  return "/proc/self/fd/" + std::to_string(located.path_fd.get());
}

}  // namespace

tl::expected<Located, OpenError> identify(UniqueFd path_fd, const std::string& described) {
  struct stat status {};
  if (::fstat(path_fd.get(), &status) != 0) {
    const int error = errno;
    return refuse(error, described + " cannot be inspected: " + errno_text(error));
  }
  const auto id = id_of(status);
  if (!id)
    return refuse(ENOTBLK, described + " is " + kind_name(status.st_mode) +
                               "; only regular files and block devices can be exported");
  return Located{std::move(path_fd), *id, {}, {}};
}

UniqueFd reopen(const Located& located, int flags) {
  const int how = flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(::open(descriptor_path(located).c_str(), how));
  // The /proc entry of an open descriptor always exists. Therefore ENOENT means that /proc is not mounted, or
  // that it belongs to a different process namespace.
  if (fd || errno != ENOENT || !located.again) return fd;
  fd = located.again(how);
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return {};
  if (id_of(status) == located.id) return fd;
  errno = ESTALE;
  return {};
}

tl::expected<Located, OpenError> locate_file(const std::string& path, const std::string& described) {
  UniqueFd fd(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!fd) {
    const int error = errno;
    // O_PATH needs no permission on the file, so EACCES means that a directory on the path must not be
    // searched.
    return refuse(error,
                  described + " cannot be opened: " + errno_text(error) +
                      (error == EACCES ? "; give the user of urtrsd search permission for its folders" : ""));
  }
  auto located = identify(std::move(fd), described);
  if (located) {
    located->path = path;
    located->again = [path](int flags) { return UniqueFd(::open(path.c_str(), flags)); };
  }
  return located;
}

std::string real_path(const std::string& path) {
  std::error_code error;
  const auto real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real.string();
}

std::string path_of(const Located& located) {
  std::error_code error;
  const std::string path = std::filesystem::read_symlink(descriptor_path(located), error).string();
  return path.empty() ? real_path(located.path) : path;
}

}  // namespace rtrs::daemon
