#include "tools/lib/trace/choice_log/forked_runs.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>

#include "tools/lib/trace/choice_log/step_limit.hpp"
#include "tools/lib/trace/choice_log/without_numbers.hpp"

namespace rtrs::tools {

namespace {

constexpr std::size_t kTextBytes = ForkedResult::kMostSignature + 1;

void keep_text(char (&to)[kTextBytes], const std::string& from) {
  const std::size_t size = std::min(from.size(), kTextBytes - 1);
  std::memcpy(to, from.data(), size);
  to[size] = 0;
}

pid_t wait_for(pid_t pid, int& status) {
  pid_t ended = -1;
  do ended = waitpid(pid, &status, 0);
  while (ended < 0 && errno == EINTR);
  return ended;
}

}  // namespace

// Result of one run, in memory that all processes share.
struct ForkedRuns::Slot {
  bool reached, done, failed, stalled;
  int signal;
  std::uint64_t events_before, events;
  Nanos time_before, time;
  char signature[kTextBytes];
  char said[kTextBytes];
};

// The process that plays the beginning, and its copies, which play the rests.
class ForkedRuns::Child final : public sim::ChoiceObserver {
 public:
  Child(const ForkedPlan& plan, ForkedRuns& runs)
      : plan_(plan), runs_(runs), slot_(&runs.slots_[plan.forks.size()]) {}

  [[noreturn]] void run() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // A crash of the run itself is only counted here; IsolatedRunner reports it.
    if (const int words = memfd_create("urtrs-sim-stderr", MFD_CLOEXEC); words >= 0)
      dup2(words, STDERR_FILENO);
    std::vector<std::uint64_t> points;
    for (const sim::Fork& fork : plan_.forks)
      if (points.empty() || points.back() != fork.draw) points.push_back(fork.draw);
    sim::ForkingChoice choice(plan_.choice(), std::move(points),
                              [this](std::uint64_t draw) { return fork_at(draw); });
    choice.observe(this);
    sim::WorldOptions options = plan_.world;
    options.listeners = runs_.specification_;
    auto world = std::make_unique<sim::World>(options, choice);
    world_ = world.get();
    if (plan_.play_on) begin(*slot_);
    limit_.emplace(&events_of, world_);
    const sim::WorldResult result = world->run();
    limit_.reset();
    choice.observe(nullptr);
    world_ = nullptr;
    world.reset();
    finish(result);
    wait_for_all();
    _exit(0);
  }

  void drawn(const sim::Draw&) override {
    slot_->events = events();
    if (world_ != nullptr) slot_->time = world_->now();
  }
  void opened(sim::Label) override {}
  void closed() override {}
  void left_out(sim::Label) override {}

 private:
  std::uint64_t events() const { return world_ == nullptr ? 0 : world_->events(); }
  static std::uint64_t events_of(const void* world) {
    return static_cast<const sim::World*>(world)->events();
  }

  void begin(Slot& slot) {
    slot_ = &slot;
    slot.reached = true;
    slot.events_before = slot.events = events();
    if (world_ == nullptr) return;
    slot.time_before = slot.time = world_->now();
    std::string said = world_->journal().tail(1);
    said.erase(std::min(said.find('\n'), said.size()));
    keep_text(slot.said, said);
  }

  // Makes a copy of this process for each fork at this draw. Returns the seed of the rest in the copies,
  // nothing in the original.
  std::optional<std::uint64_t> fork_at(std::uint64_t draw) {
    for (std::size_t at = 0; at < plan_.forks.size(); ++at) {
      if (plan_.forks[at].draw != draw) continue;
      if (copies_.size() >= plan_.jobs) wait_for_one();
      const int words = memfd_create("urtrs-sim-stderr", MFD_CLOEXEC);
      const pid_t pid = fork();
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        limit_.reset();
        if (world_ != nullptr) limit_.emplace(&events_of, world_);
        if (words >= 0) dup2(words, STDERR_FILENO);
        copies_.clear();
        begin(runs_.slots_[at]);
        return plan_.forks[at].seed;
      }
      if (pid > 0)
        copies_[pid] = {&runs_.slots_[at], words};
      else if (words >= 0)
        close(words);
    }
    const bool last = draw == plan_.forks.back().draw;
    if (last && !plan_.play_on) {
      wait_for_all();
      _exit(0);
    }
    return std::nullopt;
  }

  struct Copy {
    Slot* slot = nullptr;
    int words = -1;  // its stderr
  };
  void wait_for_one() {
    int status = 0;
    const pid_t pid = wait_for(-1, status);
    const auto found = copies_.find(pid);
    if (pid < 0) copies_.clear();
    if (found == copies_.end()) return;
    Slot& slot = *found->second.slot;
    if (!slot.done) keep_crash(slot, status, found->second.words);
    if (found->second.words >= 0) close(found->second.words);
    copies_.erase(found);
  }
  void wait_for_all() {
    while (!copies_.empty()) wait_for_one();
  }
  static void keep_crash(Slot& slot, int status, int words) {
    slot.failed = true;
    slot.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    slot.stalled = slot.signal == StepLimit::kSignal;
    char text[1024];
    const ssize_t size = words < 0 ? 0 : pread(words, text, sizeof text, 0);
    const std::string all(text, size < 0 ? 0 : static_cast<std::size_t>(size));
    keep_text(slot.signature,
              "signal " + std::to_string(slot.signal) + " " + without_numbers(all.substr(0, all.find('\n'))));
  }

  void finish(const sim::WorldResult& result) {
    Slot& slot = *slot_;
    slot.failed = result.failed;
    slot.stalled = result.stalled;
    slot.events = result.events;
    slot.time = result.failed ? result.failure.time : result.virtual_time;
    std::string signature = sim::id_of(result.failure.oracle);
    if (result.exhausted) signature += " (events)";
    if (result.script_stuck) signature += " (not played)";
    if (!result.failed && result.honest && runs_.specification_ != nullptr) {
      if (const auto violation = runs_.specification_->verdict()) {
        slot.failed = true;
        slot.time = violation->time;
        signature = violation->oracle + " " + violation->id;
      }
    }
    keep_text(slot.signature, slot.failed ? signature : std::string());
    slot.done = true;
  }

  const ForkedPlan& plan_;
  ForkedRuns& runs_;
  Slot* slot_;
  sim::World* world_ = nullptr;
  std::map<pid_t, Copy> copies_;
  std::optional<StepLimit> limit_;
};

ForkedRuns::ForkedRuns(std::size_t most) : most_(most) {
  void* memory = mmap(nullptr, sizeof(Slot) * (most + 1), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) slots_ = static_cast<Slot*>(memory);
}

ForkedRuns::~ForkedRuns() {
  if (slots_ != nullptr) munmap(slots_, sizeof(Slot) * (most_ + 1));
}

pid_t ForkedRuns::start(const ForkedPlan& plan) {
  used_ = std::min(most_, plan.forks.size() + (plan.play_on ? 1 : 0));
  for (std::size_t at = 0; at <= plan.forks.size() && at <= most_; ++at) slots_[at] = {};
  std::fflush(stdout);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (getppid() != parent) _exit(1);
  Child(plan, *this).run();
}

std::vector<ForkedResult> ForkedRuns::collect() const {
  std::vector<ForkedResult> results(used_);
  for (std::size_t at = 0; at < used_; ++at) {
    const Slot& slot = slots_[at];
    ForkedResult& result = results[at];
    result.reached = slot.reached;
    // A run that was reached and has no result crashed; the process that plays the beginning cannot report
    // itself.
    result.failed = slot.failed || (slot.reached && !slot.done);
    result.stalled = slot.stalled;
    result.signature = slot.signature;
    result.events_before = slot.events_before;
    result.time_before = slot.time_before;
    result.time = slot.time;
    result.said = slot.said;
    result.events = slot.events;
  }
  return results;
}

std::vector<ForkedResult> ForkedRuns::play(const ForkedPlan& plan) {
  const pid_t pid = start(plan);
  int status = 0;
  if (pid > 0) wait_for(pid, status);
  return collect();
}

}  // namespace rtrs::tools
