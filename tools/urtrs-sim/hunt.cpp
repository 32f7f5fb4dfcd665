#include "tools/urtrs-sim/hunt.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/trace/choice_log/choice_log_file.hpp"
#include "tools/lib/trace/choice_log/forked_runs.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/hunt_state.hpp"
#include "tools/urtrs-sim/one_run.hpp"
#include "tools/urtrs-sim/report.hpp"
#include "tools/urtrs-sim/stop_signals.hpp"

namespace rtrs::sim_tool {

namespace {

using Clock = std::chrono::steady_clock;
using sim::hunt::Corpus;
using sim::hunt::Task;

// Tasks that are planned at a time. The number does not depend on --jobs, so that the search does not either.
constexpr std::size_t kRound = 16;
constexpr std::size_t kMostRuns = 64;  // more than the runs of a task
// Time between two writes of the state file.
constexpr std::chrono::seconds kSaveEvery{2};
constexpr std::chrono::milliseconds kPollEvery{1};

unsigned long long u(std::uint64_t number) {
  return static_cast<unsigned long long>(number);
}

class Hunt {
 public:
  Hunt(const HuntCommand& command, Corpus& corpus) : command_(command), corpus_(corpus) {
    for (unsigned job = 0; job < command.jobs; ++job) {
      runners_.push_back(std::make_unique<tools::ForkedRuns>(kMostRuns));
      runners_.back()->ask_specification(&specification_);
    }
  }

  bool works() const {
    return std::all_of(runners_.begin(), runners_.end(), [](const auto& one) { return one->works(); });
  }
  const std::optional<sim::Lineage>& failing() const noexcept { return failing_; }
  const std::string& state_error() const noexcept { return state_error_; }
  std::uint64_t events() const noexcept {
    return corpus_.state().new_runs_events + corpus_.state().fork_events;
  }

  void search() {
    while (!failing_ && stopped_by == 0 && !is_over()) {
      round();
      if (line_.is_due()) show();
      if (Clock::now() - saved_ > kSaveEvery) save();
    }
    line_.clear();
    if (!failing_) save();
  }

  // Returns false if the state file cannot be written. The search goes on without it.
  bool save() {
    saved_ = Clock::now();
    state_error_.clear();
    if (command_.state.empty() || save_hunt_state(command_.state, corpus_, command_.options)) return true;
    state_error_ = "--state: cannot write " + command_.state + ": " + std::strerror(errno) + " (errno " +
                   std::to_string(errno) + ")";
    return false;
  }

 private:
  struct Running {
    pid_t pid = -1;
    std::size_t task = 0;
  };

  bool is_over() const {
    if (command_.most_events != 0 && events() >= command_.most_events) return true;
    return command_.time_limit > 0 &&
           std::chrono::duration<double>(Clock::now() - began_).count() > command_.time_limit;
  }

  void show() {
    line_.show(tools::with_commas(corpus_.state().runs) + " runs, " + tools::with_commas(events()) +
               " events, " + tools::with_commas(corpus_.state().features.size()) + " features");
  }

  tools::ForkedPlan plan_of(const Task& task) const {
    tools::ForkedPlan plan;
    plan.world.seed = task.place.lineage.seed;
    plan.world.over_tcp = command_.over_tcp;
    plan.world.make_net = command_.make_net;
    plan.with_features = true;
    plan.choice = [&task] { return std::make_unique<sim::LineageChoice>(task.place.lineage); };
    for (const std::uint64_t seed : task.seeds) plan.forks.push_back({task.place.draw, seed});
    plan.play_on = task.is_new();
    return plan;
  }

  // Plays the tasks of a round, several at a time, and adds them to the corpus in their order. A round that a
  // signal interrupts is not added.
  void round() {
    const sim::hunt::CorpusState before = corpus_.state();
    const std::vector<Task> tasks = corpus_.plan(kRound);
    std::vector<std::vector<tools::ForkedResult>> results(tasks.size());
    std::vector<Running> running(runners_.size());
    std::size_t next = 0, end = tasks.size(), alive = 0;
    while (alive > 0 || (next < end && stopped_by == 0)) {
      for (std::size_t job = 0; job < running.size() && next < end && stopped_by == 0; ++job) {
        if (running[job].pid > 0) continue;
        running[job] = {runners_[job]->start(plan_of(tasks[next])), next};
        if (running[job].pid > 0) ++alive;
        ++next;
      }
      std::this_thread::sleep_for(kPollEvery);
      for (std::size_t job = 0; job < running.size(); ++job) {
        Running& one = running[job];
        if (one.pid <= 0 || !has_ended(one.pid)) continue;
        results[one.task] = runners_[job]->collect();
        one.pid = -1;
        --alive;
        const bool failed = std::any_of(results[one.task].begin(), results[one.task].end(),
                                        [](const tools::ForkedResult& result) { return result.failed; });
        if (failed) end = std::min(end, one.task + 1);  // later tasks would not be added
      }
    }
    if (stopped_by != 0) {
      corpus_.restore(before);
      return;
    }
    for (std::size_t task = 0; task < end && !failing_; ++task) add(tasks[task], results[task]);
  }

  static bool has_ended(pid_t pid) {
    int status = 0;
    return waitpid(pid, &status, WNOHANG) != 0;
  }

  void add(const Task& task, const std::vector<tools::ForkedResult>& results) {
    for (std::size_t run = 0; run < results.size(); ++run) {
      const tools::ForkedResult& result = results[run];
      // The beginning is played once for all forks.
      if (run == 0) corpus_.count_events(task, result.events_before);
      corpus_.count_events(task, result.events - result.events_before);
      if (result.failed && !failing_) failing_ = task.lineage_of(run);
      if (result.reached) corpus_.add(task, run, result.found);
    }
  }

  const HuntCommand& command_;
  Corpus& corpus_;
  tools::LiveJudge specification_;
  std::vector<std::unique_ptr<tools::ForkedRuns>> runners_;
  std::optional<sim::Lineage> failing_;
  tools::ProgressLine line_;
  std::string state_error_;
  const Clock::time_point began_ = Clock::now();
  Clock::time_point saved_ = began_;
};

std::string forks_text(const sim::Lineage& lineage) {
  std::string text = "seed " + std::to_string(lineage.seed);
  for (std::size_t at = 0; at < lineage.forks.size(); ++at)
    text += (at == 0 ? ", forked at draw " : ", ") + std::to_string(lineage.forks[at].draw);
  return text;
}

// Plays the failing run again to get its choice log, and writes it.
int report(const HuntCommand& command, const sim::Lineage& lineage) {
  OneRun run;
  run.world.seed = lineage.seed;
  run.world.over_tcp = command.over_tcp;
  run.world.make_net = command.make_net;
  run.choice = [&lineage] { return std::make_unique<sim::LineageChoice>(lineage); };
  tools::IsolatedRunner runner;
  bool specification = false;
  if (!runner.works()) return complain("no memory to share with the runs"), kUsage;
  const tools::IsolatedResult result = play_judged(runner, run, specification);
  answer()["seed"] = lineage.seed;
  auto& forks = answer()["forks"] = nlohmann::ordered_json::array();
  for (const sim::Fork& fork : lineage.forks) forks.push_back({{"draw", fork.draw}, {"seed", fork.seed}});
  if (!result.failed) {
    std::printf("FAIL %s failed in the hunt, but not alone\n", forks_text(lineage).c_str());
    return kNondeterministic;
  }
  const std::string out =
      command.out.empty() ? "urtrs-sim-hunt-" + std::to_string(lineage.seed) + ".choices" : command.out;
  std::printf("FAIL %s t=%s, %s\n  seen: %s\n", result.signature.c_str(),
              sim::to_seconds(result.time).c_str(), forks_text(lineage).c_str(), result.seen.c_str());
  answer()["signature"] = result.signature;
  answer()["seen"] = result.seen;
  if (const int error =
          tools::write_choice_log(out, {lineage.seed, result.signature, result.seen, result.choice_log,
                                        std::nullopt, command.over_tcp, command.make_net != nullptr})) {
    complain("cannot write " + out + ": " + std::strerror(error) + " (errno " + std::to_string(error) + ")");
    return kUsage;
  }
  answer()["choice_log"] = out;
  std::printf(
      "choice log: %s\n  reproduce: urtrs-sim run --choices %s\n  make small: urtrs-sim shrink --choices "
      "%s\n",
      out.c_str(), out.c_str(), out.c_str());
  return result.stalled ? kNoProgress : kViolated;
}

void summary(const Corpus& corpus) {
  const sim::hunt::CorpusState& state = corpus.state();
  const std::uint64_t fresh = state.next_seed - state.seed;
  const std::uint64_t events = state.new_runs_events + state.fork_events;
  std::printf("%llu runs (%llu new seeds), %llu events (%llu of new seeds), %zu features\n", u(state.runs),
              u(fresh), u(events), u(state.new_runs_events), state.features.size());
  answer() = {{"command", "hunt"},
              {"runs", state.runs},
              {"new_seeds", fresh},
              {"events", events},
              {"new_events", state.new_runs_events},
              {"features", state.features.size()}};
}

}  // namespace

int hunt(const HuntCommand& command) {
  Corpus corpus(command.seed);
  if (!command.state.empty()) {
    auto state = open_hunt_state(command.state, command.seed, command.options);
    if (!state) return complain("--state: " + state.error()), kUsage;
    corpus = std::move(*state);
  }
  const StopSignals signals;
  Hunt search(command, corpus);
  if (!search.works()) return complain("no memory to share with the runs"), kUsage;
  // Writes the state at the start, so that an unwritable file is not reported only after hours of work.
  if (!search.save()) return complain(search.state_error()), kUsage;
  search.search();
  summary(corpus);
  if (search.failing()) return report(command, *search.failing());
  if (!search.state_error().empty()) return complain(search.state_error()), kUsage;
  if (stopped_by != 0) return report_stopped("after " + std::to_string(corpus.state().runs) + " runs");
  std::printf("ok: every rule held\n");
  return kOk;
}

}  // namespace rtrs::sim_tool
