#include "tools/urtrs-sim/ledger_command.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/arguments.hpp"
#include "tools/urtrs-sim/held_output.hpp"
#include "tools/urtrs-sim/ledger.hpp"
#include "tools/urtrs-sim/replace_file.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/version_comment.hpp"

namespace rtrs::sim_tool {

namespace {

constexpr unsigned kMostLockSeconds = 120;
constexpr int kNoAnswer = 127;             // exit code if there is no git
constexpr unsigned kMostCaseSeconds = 60;  // time limit of a case; a normal one takes milliseconds

struct Outcome {
  int code = kOk;    // exit code of the run; kViolated also after a crash or if it took too long
  std::string said;  // first line that it printed
};

// Runs the case in a new process of this program.
Outcome run_case(const LedgerCase& one, const std::string& ledger) {
  std::vector<std::string> words;
  std::istringstream command(command_of(one));
  for (std::string word; command >> word;) words.push_back(word);
  if (!one.choices.empty()) {
    const std::size_t slash = ledger.rfind('/');
    const bool is_relative = one.choices[0] != '/' && slash != std::string::npos;
    words = {words[0], "run", "--choices=" + (is_relative ? ledger.substr(0, slash + 1) : "") + one.choices};
  }
  const tools::ScratchFolder scratch;  // a sweep writes the traces of a failure
  if (words[1] == "sweep") words.insert(words.end(), {"--traces", scratch.path().string()});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const MemoryFile output;
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output.fd(), STDOUT_FILENO);
    dup2(output.fd(), STDERR_FILENO);
    alarm(kMostCaseSeconds);
    ::execv("/proc/self/exe", arguments.data());
    _exit(kUsage);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) return {kUsage, "no process could be started"};
  const std::string text = output.text();
  if (WIFSIGNALED(status))
    return {kViolated, "the run ended with signal " + std::to_string(WTERMSIG(status))};
  return {WEXITSTATUS(status), text.substr(0, text.find('\n'))};
}

nlohmann::ordered_json as_json(const LedgerCase& one) {
  return {{"command", command_of(one)},
          {"rule", one.rule},
          {"place", one.place},
          {"shown", one.shown},
          {"fixed", one.fixed}};
}

nlohmann::ordered_json as_json(const LedgerSweep& one) {
  return {{"version", one.version}, {"seeds", one.seeds},         {"options", one.worlds + one.checks},
          {"rate", one.rate},       {"marks", one.marks},         {"all_marks", one.all_marks},
          {"pairs", one.pairs},     {"all_pairs", one.all_pairs}, {"failures", one.failures}};
}

void print_ledger(const Ledger& ledger) {
  const auto u = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  answer() = {{"command", "ledger"},
              {"sweeps", nlohmann::ordered_json::array()},
              {"cases", nlohmann::ordered_json::array()}};
  for (const LedgerSweep& one : ledger.sweeps) {
    answer()["sweeps"].push_back(as_json(one));
    const std::string rate = one.rate > 0 ? std::to_string(static_cast<std::uint64_t>(one.rate)) : "?";
    std::printf("%s, seeds %s%s: %s seeds/s, %llu of %llu marks, %llu of %llu pairs, %llu failure%s\n",
                one.version.c_str(), one.seeds.c_str(), one.worlds.c_str(), rate.c_str(), u(one.marks),
                u(one.all_marks), u(one.pairs), u(one.all_pairs), u(one.failures),
                one.failures == 1 ? "" : "s");
  }
  for (std::size_t at = 0; at < ledger.cases.size(); ++at) {
    const LedgerCase& one = ledger.cases[at];
    answer()["cases"].push_back(as_json(one));
    std::printf("case %zu: %s\n  rule: %s\n  place: %s\n  shown by %s\n  %s%s\n", at + 1,
                tools::printable(command_of(one)).c_str(), one.rule.c_str(),
                tools::printable(one.place).c_str(), one.shown.c_str(),
                one.fixed.empty() ? "open" : "fixed by ", one.fixed.c_str());
  }
  std::printf("%zu sweep%s, %zu case%s\n", ledger.sweeps.size(), ledger.sweeps.size() == 1 ? "" : "s",
              ledger.cases.size(), ledger.cases.size() == 1 ? "" : "s");
}

int save(const LedgerCommand& command, const Ledger& ledger) {
  const std::string text = to_text(ledger);
  const int error = text.size() > kMostLedgerMiB << 20 ? EFBIG : replace_file(command.file, text);
  return error == 0 ? kOk : usage(cannot_write(command.file, error) + "; name another file with --ledger");
}

// Locks the ledger, which a process replaces as a whole, until this process ends: other processes would
// otherwise lose what it adds. Makes the file if `makes` is true. Returns 0 or a positive errno.
int lock_ledger(const std::string& file, bool makes) {
  for (unsigned tries = 0; tries < kMostLockSeconds * 50; ++tries) {
    const int fd = ::open(file.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | (makes ? O_CREAT : 0), 0666);
    if (fd < 0) return errno;
    struct stat opened {};
    struct stat named {};
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) {
      if (::fstat(fd, &opened) == 0 && ::stat(file.c_str(), &named) == 0 && opened.st_ino == named.st_ino)
        return 0;
      ::close(fd);
      continue;  // another process has replaced the file
    }
    const int error = errno;
    ::close(fd);
    // Some file systems of clusters have no locks.
    if (error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK) return 0;
    if (error != EWOULDBLOCK && error != EINTR) return error;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return ETIMEDOUT;
}

// Returns the name of the commit in a version such as "urtrs-sim 0.1.0 (v0.1-3-gabc1234-dirty)"; empty: it
// has none.
std::string commit_of(const std::string& version) {
  const std::size_t begin = version.find('(');
  if (begin == std::string::npos) return "";
  std::string commit = version.substr(begin + 1, version.find(')') - begin - 1);
  commit.resize(std::min(commit.find("-dirty"), commit.size()));
  return commit.starts_with('-') ? "" : commit;  // git would take it for an option
}

// True if the commit of `version` is an ancestor of that of `other`, as git says in the working folder.
// nullopt: git does not know them.
std::optional<bool> is_older(const std::string& version, const std::string& other) {
  const std::string first = commit_of(version);
  const std::string second = commit_of(other);
  if (first.empty() || second.empty()) return std::nullopt;
  if (first == second) return false;
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    const int none = ::open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(none, fd);
    alarm(kMostCaseSeconds);
    ::execlp("git", "git", "merge-base", "--is-ancestor", first.c_str(), second.c_str(), nullptr);
    _exit(kNoAnswer);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return std::nullopt;
  const int code = WEXITSTATUS(status);
  return code > 1 ? std::nullopt : std::optional<bool>(code == 0);
}

int add_results(const LedgerCommand& command, Ledger& ledger) {
  std::size_t cases = 0;
  for (std::size_t at = 1; at < command.words.size(); ++at) {
    const std::string& file = command.words[at];
    const auto result = read_result(file);
    if (!result) return usage(tools::printable(file) + ": " + result.error());
    const auto times = read_times(file);
    if (!times) return usage(times.error());
    cases += ledger.add(*result, *times, [&](const LedgerCase& one) {
      const auto older = is_older(result->version, one.fixed);
      std::printf("%s shows a failure that %s fixed, which %s\n", result->version.c_str(), one.fixed.c_str(),
                  !older   ? "git does not know to be newer: a new case"
                  : *older ? "is newer: no new case"
                           : "is not newer: a new case");
      return older.value_or(false);
    });
  }
  if (const int code = save(command, ledger)) return code;
  std::printf("%zu new case%s in %s\n", cases, cases == 1 ? "" : "s", command.file.c_str());
  return kOk;
}

// Records this version as the one that fixed the cases, if they pass.
int fix_cases(const LedgerCommand& command, Ledger& ledger) {
  for (std::size_t at = 1; at < command.words.size(); ++at) {
    const auto number = parse_seed_range(command.words[at]);
    if (!number || number->size() != 1 || number->first == 0 || number->first > ledger.cases.size())
      return usage("there is no case " + tools::printable(command.words[at]) +
                   "; `urtrs-sim ledger` prints them");
    LedgerCase& one = ledger.cases[number->first - 1];
    const std::string name = "case " + std::to_string(number->first);
    const Outcome outcome = run_case(one, command.file);
    if (outcome.code == kUsage) return usage(name + " cannot be run: " + tools::printable(outcome.said));
    if (outcome.code != kOk) {
      complain(name + " still fails: " + tools::printable(outcome.said));
      return kViolated;
    }
    one.fixed = this_version();
    std::printf("%s passes: fixed by %s\n", name.c_str(), one.fixed.c_str());
  }
  return save(command, ledger);
}

}  // namespace

int keep_ledger(const LedgerCommand& command) {
  const std::string action = command.words.empty() ? "" : command.words[0];
  if (!action.empty() && action != "add" && action != "fix")
    return usage("ledger does not know '" + tools::printable(action) + "'; expected add or fix");
  if (!action.empty() && command.words.size() < 2)
    return usage("ledger " + action + " needs " +
                 (action == "add" ? "results of sweep or merge; name them"
                                  : "numbers of cases; `urtrs-sim ledger` prints them"));
  std::error_code none;
  if (command.html == command.file ||
      (!command.html.empty() && std::filesystem::equivalent(command.html, command.file, none)))
    return usage("--html would replace the ledger; name another file");
  if (action == "add")
    for (std::size_t at = 1; at < command.words.size(); ++at)
      if (const auto result = read_result(command.words[at]); !result)
        return usage(tools::printable(command.words[at]) + ": " + result.error());
  const int error = action.empty() ? 0 : lock_ledger(command.file, action == "add");
  if (error == ETIMEDOUT) return usage("another urtrs-sim changes the ledger; run this command again later");
  if (error != 0 && (action == "add" || error != ENOENT))
    return usage(cannot_write(command.file, error) + "; name another file with --ledger");
  auto ledger = read_ledger(command.file);
  if (!ledger)
    return usage(ledger.error() + "; --ledger names a ledger, and `urtrs-sim ledger add RESULT` makes one");
  if (action == "add")
    if (const int code = add_results(command, *ledger)) return code;
  if (action == "fix")
    if (const int code = fix_cases(command, *ledger)) return code;
  print_ledger(*ledger);
  if (command.html.empty()) return kOk;
  if (const int failed = replace_file(command.html, ledger_page(*ledger)))
    return usage(cannot_write(command.html, failed) + "; name another file");
  answer()["html"] = command.html;
  std::printf("page: %s\n", command.html.c_str());
  return kOk;
}

int run_cases(const std::string& file) {
  const auto ledger = read_ledger(file);
  if (!ledger) return usage("--ledger: " + ledger.error() + "; `urtrs-sim ledger add RESULT` makes one");
  int code = kOk;
  std::size_t passed = 0;
  std::string not_run;
  tools::ProgressLine line;
  for (std::size_t at = 0; at < ledger->cases.size(); ++at) {
    const LedgerCase& one = ledger->cases[at];
    line.show(tools::progress_text(at, ledger->cases.size(), "cases", 0));
    const Outcome outcome = run_case(one, file);
    line.clear();
    const std::string name = "case " + std::to_string(at + 1);
    if (outcome.code == kUsage) {
      not_run += "; " + name + " cannot be run: " + tools::printable(outcome.said);
      continue;
    }
    passed += outcome.code == kOk ? 1 : 0;
    if (outcome.code == kOk && one.fixed.empty())
      std::printf("%s passes; record the version that fixed it: urtrs-sim ledger fix %zu --ledger %s\n",
                  name.c_str(), at + 1, file.c_str());
    if (outcome.code == kOk) continue;
    code = kViolated;
    std::printf("FAIL %s, %s: %s\n  reproduce: %s  %s\n", name.c_str(),
                one.fixed.empty() ? "still open" : ("fixed by " + one.fixed + ", fails again").c_str(),
                tools::printable(outcome.said).c_str(), tools::printable(command_of(one)).c_str(),
                version_comment().c_str());
  }
  const std::string sum = std::to_string(passed) + " of " + std::to_string(ledger->cases.size()) +
                          " cases of " + tools::printable(file) + " pass" + not_run;
  if (code == kOk && !not_run.empty()) return usage(sum);
  if (code == kOk)
    std::printf("%s\n", sum.c_str());
  else
    complain(sum);
  return code;
}

CLI::App* ledger_options(CLI::App& app, LedgerCommand& command) {
  CLI::App* ledger = app.add_subcommand("ledger", "print failing seeds and the results of sweeps by version");
  ledger
      ->add_option(
          "action", command.words,
          "add RESULT...: add results of sweep or merge, and a case for each new failure; fix CASE...: "
          "record that this version fixes the cases, which must pass")
      ->type_name("ACTION");
  ledger->add_option("--ledger", command.file, "the ledger")->capture_default_str()->type_name("FILE");
  ledger->add_option("--html", command.html, "also write the ledger as a page")->type_name("FILE");
  ledger->add_flag_callback(
      "--json", [] {}, "one object instead of the text");
  return ledger;
}

}  // namespace rtrs::sim_tool
