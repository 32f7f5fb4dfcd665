#include "tools/urtrs/kernel_nbd.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tools/lib/files/find_program.hpp"
#include "tools/lib/rpc/socket_path.hpp"

namespace rtrs::admin {

namespace {

// Seconds that a request may take: the kernel's default fails the device while IO waits for a path.
constexpr const char* kTimeout = "3600";
constexpr std::size_t kMostNote = 1024;  // bytes: a socket and a name

rpc::Error refusal(int error, std::string message, std::string hint) {
  return {rpc::Code::failed, std::move(message), std::move(hint), error};
}

std::string program_of(const NbdHost& host) {
  return host.program.empty() ? tools::find_program("nbd-client") : host.program;
}

// The kernel shows the process that attached a device for as long as it is.
bool is_taken(const NbdHost& host, const std::string& name) {
  return std::filesystem::exists(host.blocks + "/" + name + "/pid");
}

// The process that attached it, which tells one attachment from the next.
std::string attached_by(const NbdHost& host, const std::string& name) {
  std::ifstream file(host.blocks + "/" + name + "/pid");
  std::string pid;
  std::getline(file, pid);
  return pid;
}

bool is_name(const std::string& name) {
  return name.size() > 3 && name.starts_with("nbd") &&
         name.find_first_not_of("0123456789", 3) == std::string::npos;
}

// "nbd3" of "/dev/nbd3" or "nbd3"; empty: it is no such device.
std::string name_of(const NbdHost& host, const std::string& wanted) {
  const std::string prefix = host.devices + "/";
  const std::string name = wanted.starts_with(prefix) ? wanted.substr(prefix.size()) : wanted;
  return is_name(name) && std::filesystem::exists(prefix + name) ? name : "";
}

std::string free_name(const NbdHost& host) {
  constexpr int kMostDevices = 1024;
  for (int i = 0; i < kMostDevices; ++i) {
    const std::string name = fmt::format("nbd{}", i);
    if (!std::filesystem::exists(host.devices + "/" + name)) return "";
    if (!is_taken(host, name)) return name;
  }
  return "";
}

std::string note_of(const NbdHost& host, const std::string& name) {
  return fmt::format("{}/{}.attached", host.notes.empty() ? rpc::runtime_folder() : host.notes, name);
}

void write_note(const NbdHost& host, const std::string& name, const std::string& text) {
  const std::string file = note_of(host, name);
  ::unlink(file.c_str());
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
  ::close(fd);
}

// What this user wrote; others may write in the folder, too.
std::string read_note(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return "";
  std::array<char, kMostNote> text{};
  struct stat found {};
  ssize_t got = 0;
  if (::fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == ::geteuid())
    got = ::read(fd, text.data(), text.size());
  ::close(fd);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
}

// Its exit code; 127: it could not be run.
int run(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);  // standard output is for the answer
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  int status = 0;
  if (pid < 0) return 127;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string text_of(const NbdHost& host, const std::string& device, const std::string& socket,
                    const std::string& name) {
  return socket + "\n" + name + "\n" + attached_by(host, device) + "\n";
}

}  // namespace

std::optional<rpc::Error> check_kernel_nbd(const NbdHost& host, const std::string& wanted) {
  if (host.needs_root && ::geteuid() != 0)
    return refusal(EPERM, "only root attaches a device of the kernel",
                   "run it with sudo, or use the URI without --nbd");
  if (!std::filesystem::exists(host.devices + "/nbd0"))
    return refusal(ENODEV, fmt::format("there is no {}/nbd0", host.devices),
                   "modprobe nbd; where the kernel has no such module, use the URI without --nbd");
  if (program_of(host).empty())
    return refusal(ENOENT, "there is no nbd-client in PATH", "apt-get install nbd-client");
  if (wanted == "auto") {
    if (free_name(host).empty())
      return refusal(EBUSY, fmt::format("every {}/nbdN is taken", host.devices),
                     "detach one with nbd-client -d, or modprobe nbd nbds_max=64");
    return std::nullopt;
  }
  const std::string name = name_of(host, wanted);
  if (name.empty())
    return refusal(
        ENODEV, fmt::format("\"{}\" is no device of the kernel's NBD client", wanted),
        fmt::format("{}/nbd0, {}/nbd1 and so on, or --nbd without one", host.devices, host.devices));
  if (is_taken(host, name))
    return refusal(EBUSY, fmt::format("{}/{} is taken", host.devices, name),
                   "name another one, or --nbd without one");
  return std::nullopt;
}

tl::expected<std::string, rpc::Error> attach_kernel_nbd(const NbdHost& host, const std::string& wanted,
                                                        const std::string& socket, const std::string& name) {
  if (auto missing = check_kernel_nbd(host, wanted)) return tl::unexpected(std::move(*missing));
  const std::string device = wanted == "auto" ? free_name(host) : name_of(host, wanted);
  const std::string path = host.devices + "/" + device;
  const int code =
      run({program_of(host), "-unix", socket, path, "-N", name, "-C", "4", "-timeout", kTimeout});
  if (code != 0)
    return tl::unexpected(refusal(EIO, fmt::format("nbd-client ended with code {} for {}", code, path),
                                  "its message is above; the device is not mapped"));
  write_note(host, device, text_of(host, device, socket, name));
  return path;
}

std::optional<rpc::Error> detach_kernel_nbd(const NbdHost& host, const std::string& socket,
                                            const std::string& name) {
  std::error_code none;
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(host.notes.empty() ? rpc::runtime_folder() : host.notes, none)) {
    const std::string device = entry.path().stem();
    if (entry.path().extension() == ".attached" && is_name(device) &&
        read_note(entry.path()) == text_of(host, device, socket, name))
      names.push_back(device);
  }
  for (const std::string& device : names) {
    const std::string path = host.devices + "/" + device;
    if (is_taken(host, device)) {
      if (const int code = run({program_of(host), "-d", path}); code != 0)
        return refusal(EBUSY, fmt::format("nbd-client -d {} ended with code {}", path, code),
                       "is it mounted?");
    }
    ::unlink(note_of(host, device).c_str());
  }
  return std::nullopt;
}

}  // namespace rtrs::admin
