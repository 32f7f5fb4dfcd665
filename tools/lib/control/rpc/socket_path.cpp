#include "tools/lib/control/rpc/socket_path.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace rtrs::rpc {

namespace {

bool listens(const std::string& path) {
  sockaddr_un address{};
  if (path.size() >= sizeof(address.sun_path)) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // EAGAIN (the listen queue is full) and EACCES (another user's socket) also mean that a process listens.
  const bool dead = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 &&
                    (errno == ECONNREFUSED || errno == ENOENT);
  ::close(fd);
  return !dead;
}

// Returns true if the process to which a socket PROGRAM-PID.sock belongs exists. A process that is starting
// may have created its socket, but not listen yet.
bool lives(std::string_view program, const std::string& path) {
  const std::string name = std::filesystem::path(path).stem();
  pid_t pid = 0;
  const char* const end = name.data() + name.size();
  const char* const number = name.data() + std::min(program.size() + 1, name.size());
  const auto read = std::from_chars(number, end, pid);
  return read.ec == std::errc() && read.ptr == end && pid > 0 && (::kill(pid, 0) == 0 || errno != ESRCH);
}

constexpr const char* kSystemFolder = "/run/urtrs";

// Returns true if the folder belongs to this user: another user could have created a folder in /tmp first.
bool is_ours(const std::string& folder) {
  struct stat found {};
  return ::lstat(folder.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         (found.st_uid == ::geteuid() || found.st_uid == 0 || folder == kSystemFolder);
}

std::vector<std::string> sockets_of(std::string_view program, const std::string& folder) {
  std::vector<std::string> found;
  if (!is_ours(folder)) return found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    std::error_code ignored;
    if (name.rfind(program, 0) == 0 && entry.path().extension() == ".sock" && entry.is_socket(ignored))
      found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

const char* from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

std::string runtime_folder() {
  // systemd sets RUNTIME_DIRECTORY for a service with RuntimeDirectory=.
  for (const char* name : {"URTRS_RUNTIME_DIR", "RUNTIME_DIRECTORY"})
    if (const char* folder = from_environment(name)) return folder;
  if (::geteuid() == 0) return kSystemFolder;
  if (const char* folder = from_environment("XDG_RUNTIME_DIR")) return std::string(folder) + "/urtrs";
  return fmt::format("/tmp/urtrs-{}", ::geteuid());
}

tl::expected<std::string, std::string> make_socket_path(std::string_view program) {
  const std::string folder = runtime_folder();
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST)
    return tl::unexpected(fmt::format("cannot create the folder \"{}\" for the control socket: {}", folder,
                                      std::strerror(errno)));
  if (!is_ours(folder))
    return tl::unexpected(
        fmt::format("\"{}\" does not belong to this user, so no control socket is created there", folder));
  for (const std::string& socket : sockets_of(program, folder))
    if (!lives(program, socket) && !listens(socket)) ::unlink(socket.c_str());
  return fmt::format("{}/{}-{}.sock", folder, program, ::getpid());
}

std::vector<std::string> sockets(std::string_view program) {
  std::vector<std::string> found = sockets_of(program, runtime_folder());
  if (from_environment("URTRS_RUNTIME_DIR") == nullptr && runtime_folder() != kSystemFolder)
    for (std::string& one : sockets_of(program, kSystemFolder)) found.push_back(std::move(one));
  return found;
}

std::vector<std::string> live_sockets(std::string_view program) {
  std::vector<std::string> found = sockets(program);
  found.erase(
      std::remove_if(found.begin(), found.end(), [](const std::string& one) { return !listens(one); }),
      found.end());
  return found;
}

tl::expected<std::string, Error> only_socket(std::string_view program) {
  const std::vector<std::string> found = live_sockets(program);
  if (found.size() == 1) return found.front();
  const std::string folder = runtime_folder();
  if (found.empty() && ::access(folder.c_str(), R_OK | X_OK) != 0 && errno == EACCES)
    return tl::unexpected(Error{
        Code::failed,
        fmt::format("no permission to read \"{}\", the folder of the control socket of {}", folder, program),
        "run this as root or as the user of the daemon, or name its socket with --socket", EACCES});
  if (found.empty())
    return tl::unexpected(Error{Code::failed,
                                fmt::format("no {} has a control socket in {}", program, folder),
                                "start one, or name its socket with --socket", ENOENT});
  return tl::unexpected(
      Error{Code::failed,
            fmt::format("{} {} processes are running: {}", found.size(), program, fmt::join(found, ", ")),
            "choose one with --socket", EINVAL});
}

}  // namespace rtrs::rpc
