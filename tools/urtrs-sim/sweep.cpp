#include "tools/urtrs-sim/sweep.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "sim/scenarios/directed.hpp"
#include "sim/scenarios/stream_play.hpp"
#include "sim/world/world.hpp"
#include "tools/lib/text/help_text.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/artifacts.hpp"
#include "tools/urtrs-sim/held_output.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/scenarios.hpp"
#include "tools/urtrs-sim/stop_signals.hpp"
#include "tools/urtrs-sim/sweep_worker.hpp"
#include "tools/urtrs-sim/version_comment.hpp"

namespace rtrs::sim_tool {

namespace {

using Clock = std::chrono::steady_clock;
// How long a worker may take to finish its seed after a signal.
constexpr std::chrono::seconds kPatience{10};
// Time between two writes of the state file.
constexpr std::chrono::seconds kSaved{2};

Shared* make_shared() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : new (memory) Shared;
}

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
    const int code = verdict();
    if (!state_error_.empty()) complain(state_error_);
    if (code == kOk && done_below() < options_.seeds.end && options_.go_on) {
      const std::string rest = options_.go_on({done_below(), options_.seeds.end});
      std::printf("continue with: %s\n", rest.c_str());
      answer()["go_on"] = rest;
    }
    if (code == kOk && !state_error_.empty()) return kUsage;
    if (code != kOk || stopped_by == 0) return code;
    return report_stopped("after " + std::to_string(total(&Worker::seeds)) + " of " +
                          std::to_string(options_.seeds.size()) + " seeds");
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
    std::fflush(stdout);
    const pid_t parent = getpid();
    const BlockedStops blocked;  // blocks the signals until each worker has set its handlers
    for (unsigned job = 0; job < options_.jobs; ++job) {
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
      pids_.push_back(pid);
      if (pid > 0) ++alive_;
    }
  }

  void reap() {
    for (std::size_t job = 0; job < pids_.size(); ++job) {
      int status = 0;
      if (pids_[job] <= 0 || waitpid(pids_[job], &status, WNOHANG) != pids_[job]) continue;
      pids_[job] = 0;
      --alive_;
      if ((WIFEXITED(status) && WEXITSTATUS(status) == 0) || was_stopped(status)) continue;
      Worker& worker = shared_.workers[job];
      // The worker may have ended before it got its first seed.
      const std::uint64_t at = worker.current;
      failed_of(worker) = at == kNoSeed ? options_.seeds.first : at;
      shared_.stop = true;
    }
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
      summary();
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
    if (!options_.hash_only) summary();
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
                                       !artifacts});
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
      write_artifacts(trace, said);
    }
    return code;
  }

  // Fills answer() with the same content as summary() prints.
  void fill_answer() const {
    auto& all = answer();
    all = {{"command", "sweep"},
           {"seeds", total(&Worker::seeds)},
           {"run_twice", total(&Worker::rerun)},
           {"seconds", elapsed()},
           {"events", total(&Worker::events)},
           {"requests", total(&Worker::requests)},
           {"virtual_s", static_cast<double>(total(&Worker::virtual_ms)) / 1e3},
           {"block_requests", total(&Worker::block_ios)},
           {"traces_replayed", total(&Worker::traces)},
           {"histories", total(&Worker::histories)},
           {"histories_left_out", total(&Worker::not_judgeable)},
           {"faults", nlohmann::ordered_json::object()},
           {"marks", nlohmann::ordered_json::array()}};
    for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
      all["faults"][sim::to_string(static_cast<sim::FaultClass>(fault))] =
          sum_over_jobs([fault](const Worker& worker) { return worker.faults[fault].load(); });
    for (unsigned mark = 0; mark < sim::kMarks; ++mark)
      all["marks"].push_back(
          {{"mark", sim::name_of(static_cast<sim::Mark>(mark))},
           {"text", sim::text_of(static_cast<sim::Mark>(mark))},
           {"seeds", sum_over_jobs([mark](const Worker& worker) { return worker.marks[mark].load(); })}});
  }

  template <class Get>
  std::uint64_t sum_over_jobs(Get get) const {
    std::uint64_t sum = 0;
    for (unsigned job = 0; job < options_.jobs; ++job) sum += get(shared_.workers[job]);
    return sum;
  }

  void summary() const {
    fill_answer();
    const double time = std::max(elapsed(), 1e-9);
    const auto u = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    const std::uint64_t seeds = total(&Worker::seeds);
    const std::uint64_t events = total(&Worker::events);
    std::printf("%llu seeds in %.1f s, %.0f seeds/s, %llu run twice\n", u(seeds), time,
                static_cast<double>(seeds) / time, u(total(&Worker::rerun)));
    if (options_.specification) std::printf("all judged by the specification\n");
    std::printf("%llu events (%.2f M/s), %llu requests, %.1f h of virtual time\n", u(events),
                static_cast<double>(events) / time / 1e6, u(total(&Worker::requests)),
                static_cast<double>(total(&Worker::virtual_ms)) / 3.6e6);
    if (options_.block_devices)
      std::printf("block devices: %llu worlds, %llu requests\n", u(total(&Worker::block_worlds)),
                  u(total(&Worker::block_ios)));
    if (!options_.histories.empty())
      std::printf(
          "histories: %llu in %s; %llu worlds left out, without a fence or with a peer that breaks "
          "the protocol\n",
          u(total(&Worker::histories)), options_.histories.c_str(), u(total(&Worker::not_judgeable)));
    if (options_.replay)
      std::printf("%llu traces replayed, %llu states compared\n%llu records, %.2f M/s a core\n",
                  u(total(&Worker::traces)), u(total(&Worker::state_hashes)), u(total(&Worker::records)),
                  static_cast<double>(total(&Worker::records)) * 1e3 /
                      static_cast<double>(std::max<std::uint64_t>(total(&Worker::replay_ns), 1)));
    std::string faults = "faults:";
    for (unsigned fault = 0; fault < sim::kFaultClasses; ++fault)
      if (const std::uint64_t sum =
              sum_over_jobs([fault](const Worker& one) { return one.faults[fault].load(); }))
        faults += std::string(" ") + sim::to_string(static_cast<sim::FaultClass>(fault)) + "=" +
                  std::to_string(sum);
    std::printf("%s\n", tools::wrapped(faults).c_str());
    std::printf("marks (seeds that passed through):\n");
    for (unsigned mark = 0; mark < sim::kMarks; ++mark) {
      const auto sum = sum_over_jobs([mark](const Worker& worker) { return worker.marks[mark].load(); });
      std::printf("  %8llu  %s\n", u(sum), sim::text_of(static_cast<sim::Mark>(mark)));
    }
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
  Shared* shared = make_shared();
  if (shared == nullptr) {
    complain("no memory to share with the workers");
    return kViolated;
  }
  Sweep many(options, *shared);
  const int code = many.run();
  if (totals != nullptr) many.sum(*totals);
  munmap(shared, sizeof(Shared));
  return code;
}

}  // namespace rtrs::sim_tool
