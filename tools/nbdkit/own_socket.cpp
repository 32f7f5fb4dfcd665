#include "tools/nbdkit/own_socket.hpp"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

namespace rtrs::nbdkit {
namespace {

bool listens_on(int descriptor, const std::string& path) {
  int listens = 0;
  socklen_t size = sizeof listens;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return false;
  sockaddr_un name{};
  size = sizeof name;
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size) != 0) return false;
  if (name.sun_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path)) return false;
  std::string bound(name.sun_path, size - offsetof(sockaddr_un, sun_path));
  bound.resize(bound.find('\0') == std::string::npos ? bound.size() : bound.find('\0'));
  return bound == path;
}

bool listens_here(const std::string& path) {
  DIR* const open = ::opendir("/proc/self/fd");
  if (open == nullptr) return false;
  bool found = false;
  while (const dirent* entry = ::readdir(open)) {
    if (entry->d_name[0] != '.') found = found || listens_on(std::atoi(entry->d_name), path);
  }
  ::closedir(open);
  return found;
}

}  // namespace

bool remove_own_socket(const std::string& path) {
  struct stat is {};
  if (path.empty() || ::lstat(path.c_str(), &is) != 0 || !S_ISSOCK(is.st_mode)) return false;
  return listens_here(path) && ::unlink(path.c_str()) == 0;
}

}  // namespace rtrs::nbdkit
