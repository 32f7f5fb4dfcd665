#include "tools/urtrsd/config/config_read.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

#include "tools/lib/control/limits/urtrsd.hpp"
#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/storage/open_error.hpp"
#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {
namespace {

using Text = tl::expected<std::string, std::string>;

std::string cannot_be_read(int error) {
  return "cannot be read: " + errno_text(error);
}

// Returns an error text if the file is not a regular file, otherwise an empty string.
std::string not_regular_file_error(const struct stat& found) {
  if (S_ISREG(found.st_mode)) return {};
  const char* const kind = S_ISDIR(found.st_mode)    ? "a folder"
                           : S_ISFIFO(found.st_mode) ? "a pipe"
                           : S_ISSOCK(found.st_mode) ? "a socket"
                                                     : "a device";
  return std::string("is ") + kind + ", and a configuration is a regular file";
}

Text read_now(const std::string& path) {
  struct stat found {};
  // Checks the kind before open(2), because opening a device can have side effects.
  if (::stat(path.c_str(), &found) != 0) return tl::unexpected(cannot_be_read(errno));
  std::string other = not_regular_file_error(found);
  if (!other.empty()) return tl::unexpected(std::move(other));
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd || ::fstat(fd.get(), &found) != 0) return tl::unexpected(cannot_be_read(errno));
  other = not_regular_file_error(found);
  if (!other.empty()) return tl::unexpected(std::move(other));
  std::string text;
  std::array<char, 4096> block{};
  while (text.size() <= tools::kMaxConfigFile) {
    const ssize_t size = ::read(fd.get(), block.data(), block.size());
    if (size < 0) return tl::unexpected(cannot_be_read(errno));
    if (size == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(size));
  }
  return tl::unexpected(std::string("is larger than 1 MiB, so it is not a configuration"));
}

}  // namespace

Text read_config_file(const std::string& path, std::chrono::milliseconds patience) {
  std::promise<Text> promise;
  std::future<Text> text = promise.get_future();
  try {
    std::thread([path, promise = std::move(promise)]() mutable {
      try {
        promise.set_value(read_now(path));
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    }).detach();
  } catch (const std::system_error&) {
    return tl::unexpected(std::string("cannot be read: this process may start no more threads"));
  }
  if (text.wait_for(patience) != std::future_status::ready)
    return tl::unexpected("was not read within " + std::to_string(patience.count() / 1000) +
                          " s: its disk hangs");
  return text.get();
}

}  // namespace rtrs::daemon
