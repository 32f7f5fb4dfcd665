#include "tools/urtrs-sim/crash_repeat.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <string>

#include "tools/lib/trace/choice_log/without_numbers.hpp"
#include "tools/urtrs-sim/held_output.hpp"

namespace rtrs::sim_tool {

namespace {

constexpr unsigned kMostSeconds = 20;

// Returns the first line that has a letter, without numbers and addresses, which differ from run to run.
std::string last_words(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (std::none_of(line.begin(), line.end(), [](unsigned char c) { return std::isalpha(c) != 0; }))
      continue;
    std::string out;
    for (std::size_t at = 0; at < line.size(); ++at) {
      out += line[at];
      if (line.compare(at, 2, "0x") != 0) continue;
      at += 1;
      while (at + 1 < line.size() && std::isxdigit(static_cast<unsigned char>(line[at + 1])) != 0) ++at;
    }
    return tools::without_numbers(out);
  }
  return "";
}

[[noreturn]] void play_again(Shared& shared, const SweepOptions& options, const MemoryFile& words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGTERM, SIG_IGN);
  if (words.fd() >= 0) dup2(words.fd(), STDERR_FILENO);
  alarm(kMostSeconds);
  work(shared, shared.workers[0], options);
  _exit(0);
}

}  // namespace

std::optional<FoundFailure> repeat_crash(const SweepOptions& given, const Worker& worker, int status) {
  const SharedMemory memory;
  const std::uint64_t seed = worker.current;
  if (memory.get() == nullptr || seed == kNoSeed) return std::nullopt;
  SweepOptions options = given;
  options.seeds = {seed, seed + 1};
  const MemoryFile words;
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) play_again(*memory.get(), options, words);
  int again = 0;
  if (pid < 0 || waitpid(pid, &again, 0) != pid) return std::nullopt;
  const ExtraWorld at = memory.get()->workers[0].at;
  if (again != status || at != worker.at) return std::nullopt;
  const std::string how = WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                              : "exit code " + std::to_string(WEXITSTATUS(status));
  return FoundFailure{seed, world_of(at), how, last_words(words.text())};
}

}  // namespace rtrs::sim_tool
