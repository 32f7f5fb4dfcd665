#include "conformance/contract/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string_view>
#include <vector>

extern char** environ;

namespace rtrs::conformance {
namespace {

constexpr int kPatienceMs = 10000;

std::vector<std::string> child_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("HFI_NO_BACKTRACE=") || text.starts_with("IPATH_NO_BACKTRACE=")) continue;
    if (text.starts_with("ASAN_OPTIONS=") || text.starts_with("TSAN_OPTIONS=")) continue;
    result.emplace_back(text);
  }
  result.emplace_back("ASAN_OPTIONS=handle_segv=0");
  result.emplace_back("TSAN_OPTIONS=handle_segv=0");
  return result;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::string read_line(int fd) {
  std::string line;
  for (;;) {
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    char byte = 0;
    if (::poll(&waiting, 1, kPatienceMs) != 1 || ::read(fd, &byte, 1) != 1) return {};
    if (byte == '\n') return line;
    line += byte;
  }
}

// Waits up to kPatienceMs; returns true if the process has ended. The caller must still collect the exit
// status.
bool has_ended(pid_t pid) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return false;
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  const bool ended = ::poll(&waiting, 1, kPatienceMs) == 1;
  ::close(fd);
  return ended;
}

}  // namespace

ChildProcess::ChildProcess(const char* role) {
  int out[2];
  if (::pipe2(out, O_CLOEXEC) != 0) return;
  std::vector<std::string> arguments{"/proc/self/exe", "--child", role};
  std::vector<std::string> environment = child_environment();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  if (::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, pointers_to(arguments).data(),
                    pointers_to(environment).data()) != 0) {
    pid_ = -1;
  }
  posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  if (pid_ > 0) greeting_ = read_line(out[0]);
  ::close(out[0]);
}

ChildProcess::~ChildProcess() {
  end_by(SIGKILL);
}

int ChildProcess::end_by(int number) {
  if (pid_ <= 0) return 0;
  ::kill(pid_, number);
  if (!has_ended(pid_)) return 0;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace rtrs::conformance
