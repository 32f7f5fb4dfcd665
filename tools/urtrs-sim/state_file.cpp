#include "tools/urtrs-sim/state_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tools/lib/text/version/version.hpp"

namespace rtrs::sim_tool {

std::string this_version() {
  const std::string text = tools::version_text("urtrs-sim");
  return text.substr(0, text.find('\n'));
}

bool replace_file(const std::string& file, const std::string& whole) {
  const std::string temporary = file + ".new";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0) return false;
  const ssize_t wrote = ::write(fd, whole.data(), whole.size());
  if (wrote >= 0 && static_cast<std::size_t>(wrote) != whole.size()) errno = ENOSPC;
  bool good = wrote >= 0 && static_cast<std::size_t>(wrote) == whole.size() && ::fsync(fd) == 0;
  int error = errno;
  ::close(fd);
  if (good && std::rename(temporary.c_str(), file.c_str()) != 0) {
    good = false;
    error = errno;
  }
  if (!good) {
    ::unlink(temporary.c_str());
    errno = error;
  }
  return good;
}

}  // namespace rtrs::sim_tool
