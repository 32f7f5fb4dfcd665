#include "tools/urtrs-sim/sweep.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sim/scenarios/directed.hpp"
#include "sim/scenarios/stream_play.hpp"
#include "sim/world/world.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/artifacts.hpp"
#include "tools/urtrs-sim/crash_repeat.hpp"
#include "tools/urtrs-sim/failure_pipe.hpp"
#include "tools/urtrs-sim/held_output.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/run_page.hpp"
#include "tools/urtrs-sim/scenarios.hpp"
#include "tools/urtrs-sim/stop_signals.hpp"
#include "tools/urtrs-sim/sweep_summary.hpp"
#include "tools/urtrs-sim/version_comment.hpp"

namespace rtrs::sim_tool {

namespace {

using Clock = std::chrono::steady_clock;
// How long a worker may take to finish its seed after a signal.
constexpr std::chrono::seconds kPatience{10};
// Time between two writes of the state file.
constexpr std::chrono::seconds kSaved{2};

class Sweep {
 public:
  Sweep(const SweepOptions& options, Shared& shared)
      : options_(options), shared_(shared), began_(Clock::now()) {}

  int run() {
    const StopSignals signals;
    start();
    Clock::time_point stop_at{};
    while (alive_ > 0) {
      reap();
      if (options_.failures != nullptr) options_.failures->receive(options_.result->failures);
      if (stopped_by != 0 && stop_at == Clock::time_point{}) {
        shared_.stop = true;
        stop_at = Clock::now();
      }
      if (stopped_by != 0 && Clock::now() - stop_at > kPatience) kill_workers();
      const double time = elapsed();
      if (options_.time_limit > 0 && time > options_.time_limit) shared_.stop = true;
      if (!options_.quiet && line_.is_due())
        line_.show(tools::progress_text(total(&Worker::seeds), options_.seeds.size(), "seeds", time));
      if (Clock::now() - saved_ > kSaved) save();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    line_.clear();
    save();
    const int history_errno = shared_.history_errno;
    if (history_errno != 0) {
      complain("cannot write a history to " + options_.histories + ": " + std::strerror(history_errno) +
               " (errno " + std::to_string(history_errno) + ")");
      return kUsage;
    }
    const int code = options_.result == nullptr ? verdict() : complete_result();
    if (!state_error_.empty()) complain(state_error_);
    if (code == kOk && done_below() < options_.seeds.end && options_.go_on) {
      const std::string rest = options_.go_on({done_below(), options_.seeds.end});
      std::printf("continue with: %s\n", rest.c_str());
      answer()["go_on"] = rest;
    }
    if (code == kOk && !state_error_.empty()) return kUsage;
    if (code != kOk || stopped_by == 0) return code;
    return report_stopped("after " + std::to_string(total(&Worker::seeds)) + " of " +
                          std::to_string(options_.seeds.size()) + " seeds" +
                          (options_.result == nullptr ? "" : kNoResult));
  }
  void sum(SweepTotals& totals) const {
    totals.seeds = total(&Worker::seeds);
    for (unsigned job = 0; job < options_.jobs; ++job) {
      const Worker& worker = shared_.workers[job];
      for (unsigned mark = 0; mark < sim::kMarks; ++mark) totals.marks[mark] += worker.marks[mark];
      for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
        totals.faults[fault] += worker.faults[fault];
      for (unsigned client = 0; client < sim::kPathStates; ++client)
        for (unsigned server = 0; server < sim::kPathStates; ++server)
          totals.pairs[client][server] += worker.pairs[client][server];
    }
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  void start() {
    for (unsigned job = 0; job < options_.jobs; ++job) {
      pids_.push_back(0);
      start(job);
    }
  }

  void start(unsigned job) {
    std::fflush(stdout);
    const pid_t parent = getpid();
    const BlockedStops blocked;  // blocks the signals until the worker has set its handlers
    const pid_t pid = fork();
    if (pid == 0) {
      // Makes the kernel kill the worker when this program ends. The getppid() test covers an end before
      // prctl(). Workers ignore signals to the process group; only this program handles them.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      std::signal(SIGINT, SIG_IGN);
      std::signal(SIGTERM, SIG_IGN);
      blocked.end();
      work(shared_, shared_.workers[job], options_);
      _exit(0);
    }
    pids_[job] = pid;
    if (pid > 0) ++alive_;
  }

  void reap() {
    for (unsigned job = 0; job < options_.jobs; ++job) {
      int status = 0;
      if (pids_[job] <= 0 || waitpid(pids_[job], &status, WNOHANG) != pids_[job]) continue;
      pids_[job] = 0;
      --alive_;
      if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) || was_stopped(status)) continue;
      Worker& worker = shared_.workers[job];
      if (options_.result != nullptr && record_crash(worker, status)) {
        start(job);
        continue;
      }
      // The worker may have ended before it got its first seed.
      const std::uint64_t at = worker.current;
      failed_of(worker) = at == kNoSeed ? options_.seeds.first : at;
      shared_.stop = true;
    }
  }

  // Returns false if running the seed again does not end its process in the same way.
  bool record_crash(const Worker& worker, int status) {
    const auto crash = repeat_crash(options_, worker, status);
    if (crash) options_.result->failures.add(*crash);
    return crash.has_value();
  }

  // Kills the workers that are still running a seed.
  void kill_workers() {
    for (std::size_t job = 0; job < pids_.size(); ++job) {
      if (pids_[job] <= 0) continue;
      kill(pids_[job], SIGKILL);
      waitpid(pids_[job], nullptr, 0);
      std::fprintf(stderr, "urtrs-sim: seed %llu did not finish within 10 s and was stopped\n",
                   static_cast<unsigned long long>(shared_.workers[job].current.load()));
      pids_[job] = 0;
      --alive_;
    }
  }

  // Returns the first seed that is not done; all seeds below it are done.
  std::uint64_t done_below() const {
    std::uint64_t least = options_.seeds.end;
    for (unsigned job = 0; job < options_.jobs; ++job)
      least = std::min(least, shared_.workers[job].done_below.load());
    return std::max(least, options_.seeds.first);
  }

  // Saves the state. An error is reported only at the end, because the sweep can continue without the file.
  void save() {
    saved_ = Clock::now();
    if (options_.state == nullptr) return;
    if (options_.state->save(done_below()))
      state_error_.clear();
    else
      state_error_ = "cannot write " + options_.state->file() + ": " + std::strerror(errno) + " (errno " +
                     std::to_string(errno) + ")";
  }

  std::uint64_t total(Counter Worker::*counter) const {
    std::uint64_t sum = 0;
    for (unsigned job = 0; job < options_.jobs; ++job) sum += shared_.workers[job].*counter;
    return sum;
  }
  std::uint64_t first(Counter Worker::*seed) const {
    std::uint64_t least = kNoSeed;
    for (unsigned job = 0; job < options_.jobs; ++job)
      least = std::min(least, (shared_.workers[job].*seed).load());
    return least;
  }

  // Returns kOk if all seeds were run, or if a signal stopped the sweep.
  int complete_result() {
    options_.failures->receive(options_.result->failures);
    for (unsigned job = 0; job < options_.jobs; ++job) {
      Worker& worker = shared_.workers[job];
      const std::uint64_t failed = failed_of(worker);
      if (failed == kNoSeed) continue;
      complain("the process of seed " + std::to_string(failed) +
               " ended, but not when the seed was run again; there is no result, run the range again");
      return kNondeterministic;
    }
    print_summary(shared_, options_, elapsed());
    if (stopped_by != 0 || shared_.next >= options_.seeds.size()) {
      add_totals(shared_, options_, *options_.result);
      return kOk;
    }
    complain("no process could be started; there is no result");
    return kUsage;
  }

  int verdict() {
    const std::uint64_t failed = first(&Worker::failed);
    if (failed != kNoSeed) return report(failed, "");
    const std::uint64_t blocks = first(&Worker::blocks_failed);
    if (blocks != kNoSeed) return report(blocks, std::string(sim::kRandomBlocks));
    const std::uint64_t streams = first(&Worker::streams_failed);
    if (streams != kNoSeed) return report(streams, std::string(sim::kRandomStreams));
    const std::uint64_t differing = first(&Worker::nondeterministic);
    if (options_.hash_only && stopped_by != 0) return kOk;  // a hash of only some of the seeds is useless
    if (options_.hash_only) {
      char hash[24];
      std::snprintf(hash, sizeof hash, "%016llx", static_cast<unsigned long long>(total(&Worker::hash)));
      std::printf("%s\n", hash);
      answer() = {{"command", "hash"}, {"hash", hash}, {"seeds", total(&Worker::seeds)}};
    } else if (options_.summary) {
      print_summary(shared_, options_, elapsed());
    }
    const std::uint64_t replayed = first(&Worker::differs);
    if (replayed != kNoSeed) {
      const auto seed = static_cast<unsigned long long>(replayed);
      std::printf(
          "FAIL seed=%llu: replaying its traces gives another result\n"
          "  reproduce: urtrs-sim run --seed %llu --trace run, then urtrs-replay replay FILE  %s\n",
          seed, seed, version_comment().c_str());
      answer()["reproduce"] = "urtrs-sim run --seed " + std::to_string(replayed) + " --trace run";
      return kNondeterministic;
    }
    if (differing == kNoSeed) return kOk;
    std::printf("FAIL seed=%llu oracle=O16\n  rule: %s\n  reproduce: urtrs-sim hash --seeds %llu  %s\n",
                static_cast<unsigned long long>(differing), sim::rule_of(sim::Oracle::determinism),
                static_cast<unsigned long long>(differing), version_comment().c_str());
    answer()["reproduce"] = "urtrs-sim hash --seeds " + std::to_string(differing);
    return kNondeterministic;
  }

  // Runs a failing seed again and reports the failure. This is done in a separate process, because the run
  // may crash. `scenario`: id of the directed scenario; empty: none.
  int report(std::uint64_t seed, const std::string& scenario) {
    if (!options_.hash_only) print_summary(shared_, options_, elapsed());
    std::fflush(stdout);
    const bool artifacts = !options_.artifacts.empty();
    const std::string trace =
        (artifacts ? options_.artifacts : options_.traces) + "/urtrs-sim-" + std::to_string(seed);
    std::optional<HeldOutput> held;
    if (artifacts) held.emplace();
    const MemoryFile found;  // receives answer() from the child process
    const pid_t pid = fork();
    if (pid == 0) {
      std::setvbuf(stdout, nullptr, _IOLBF, 0);
      const int code = run_and_report({seed,
                                       scenario,
                                       {},
                                       trace,
                                       false,
                                       false,
                                       options_.filter,
                                       options_.over_tcp,
                                       options_.make_net,
                                       !artifacts,
                                       {},
                                       nullptr});
      std::fflush(stdout);
      ::dprintf(found.fd(), "%s", tools::json_text(answer()).c_str());
      _exit(code);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : kViolated;
    if (WIFSIGNALED(status))
      std::printf("FAIL seed=%llu: the run ended with signal %d\ntraces: %s.{server,client*}.rtrc\n",
                  static_cast<unsigned long long>(seed), WTERMSIG(status), trace.c_str());
    if (code == kOk) {
      std::printf("FAIL seed=%llu failed in the sweep, but not alone\n",
                  static_cast<unsigned long long>(seed));
      code = kNondeterministic;
    }
    const std::string which =
        (scenario.empty() ? "" : "--scenario " + scenario + " ") + "--seed " + std::to_string(seed);
    std::printf("  reproduce: urtrs-sim run %s%s  %s\n", which.c_str(), options_.filter_text.c_str(),
                version_comment().c_str());
    if (options_.filter == nullptr)
      std::printf("  make small: urtrs-sim shrink %s%s\n", which.c_str(), options_.filter_text.c_str());
    answer()["run"] = nlohmann::ordered_json::parse(found.text(), nullptr, false);
    if (!answer()["run"].is_object()) answer()["run"] = {{"command", "run"}, {"seed", seed}};
    answer()["reproduce"] = "urtrs-sim run " + which + options_.filter_text;
    if (held) {
      const std::string said = held->take();
      std::fwrite(said.data(), 1, said.size(), stdout);
      write_artifacts(trace, said, notes_of(answer()["run"]));
    }
    return code;
  }

  const SweepOptions& options_;
  Shared& shared_;
  Clock::time_point began_;
  Clock::time_point saved_ = began_;
  std::string state_error_;
  tools::ProgressLine line_;
  unsigned alive_ = 0;
  std::vector<pid_t> pids_;
};

}  // namespace

int sweep(const SweepOptions& given, SweepTotals* totals) {
  SweepOptions options = given;
  options.jobs = std::clamp(options.jobs, 1U, kMaxJobs);
  const SharedMemory shared;
  if (shared.get() == nullptr) {
    complain("no memory to share with the workers");
    return kViolated;
  }
  std::optional<FailurePipe> failures;
  if (options.result != nullptr) {
    failures.emplace();
    if (!failures->works()) {
      complain("cannot make a pipe: " + std::string(std::strerror(errno)) + " (errno " +
               std::to_string(errno) + ")");
      return kUsage;
    }
    options.failures = &*failures;
  }
  Sweep many(options, *shared.get());
  const int code = many.run();
  if (totals != nullptr) many.sum(*totals);
  return code;
}

}  // namespace rtrs::sim_tool
