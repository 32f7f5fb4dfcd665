#include "tools/urtrs/views/run_command.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tools/lib/files/find_program.hpp"
#include "tools/urtrs/views/output.hpp"

namespace rtrs::admin {

namespace {

// Waits until the command ends and forwards signals to `target`. Polls, because a blocking wait would miss a
// signal that arrives just before it.
int await_end(pid_t pid, pid_t target) {
  constexpr int kLookMilliseconds = 50;
  int status = 0;
  int passed_on = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    // After Ctrl-C, the command receives SIGINT from the terminal.
    const bool by_terminal = interrupted() == SIGINT && ::isatty(STDIN_FILENO) == 1;
    if (interrupted() != 0 && std::exchange(passed_on, interrupted()) != interrupted() && !by_terminal)
      ::kill(target, passed_on);
    ::poll(nullptr, 0, kLookMilliseconds);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int fail_to(const std::string& what, int error, const std::string& hint, const Options& options) {
  return fail(rpc::Error{rpc::Code::failed, fmt::format("cannot run {}: {}", what, std::strerror(error)),
                         hint, error},
              options.format == Format::json);
}

}  // namespace

int run_command(const std::string& command,
                const std::vector<std::pair<std::string, std::string>>& variables) {
  std::fflush(stdout);
  // If there is no terminal, the command gets a separate process group, so that forwarded signals also reach
  // its child processes. If there is one, the command must stay in the foreground group.
  const bool own_group = ::isatty(STDIN_FILENO) != 1;
  const pid_t pid = ::fork();
  if (pid < 0) return fail_to("a shell", errno, "", {});
  if (own_group) ::setpgid(pid, 0);  // parent and child both call setpgid(), because either may run first
  if (pid != 0) return await_end(pid, own_group ? -pid : pid);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::signal(number, SIG_DFL);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
  std::fprintf(stderr, "urtrs: cannot run /bin/sh: %s\n", std::strerror(errno));
  ::_exit(127);
}

int run_nbdkit(const MapWords& words, const Options& options) {
  if (words.paths.empty() && words.from.find('@') != std::string::npos)
    return fail(
        Mistake{fmt::format("\"{}\" is not a server, and no urtrs-mapd session has that name", words.from),
                "give [SRC@]DST, the address of the server, after it", false},
        options.format == Format::json);
  const std::string program = tools::find_program("nbdkit-urtrs");
  if (program.empty())
    return fail_to("nbdkit-urtrs", ENOENT, "apt-get install nbdkit-plugin-urtrs, or put it into PATH",
                   options);
  std::vector<std::string> command{program, "-U", "-", "-e", words.device, "device=" + words.device};
  for (const std::string& path : words.paths) command.push_back("path=" + path);
  if (words.paths.empty()) command.push_back("path=" + words.from);
  if (!words.mode.empty()) command.push_back("access_mode=" + words.mode);
  if (!options.map.session.empty()) command.push_back("session=" + options.map.session);
  for (const auto& [key, value] : options.map.parameters) command.push_back(key + "=" + value);
  command.emplace_back("--run");
  command.push_back("export uri unixsocket\n" + options.map.run);
  std::vector<char*> all;
  for (std::string& word : command) all.push_back(word.data());
  all.push_back(nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) ::signal(number, SIG_DFL);
  ::execv(program.c_str(), all.data());
  return fail_to(program, errno, "", options);
}

}  // namespace rtrs::admin
