#include "tools/lib/trace/choice_log/isolated_run.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "tools/lib/trace/choice_log/schedule.hpp"
#include "tools/lib/trace/choice_log/step_limit.hpp"
#include "tools/lib/trace/choice_log/without_numbers.hpp"

namespace rtrs::tools {

namespace {

constexpr std::size_t kMaxEntries = std::size_t{8} << 20;
constexpr std::size_t kTextBytes = 4096;

struct Entry {
  enum class Kind : std::uint16_t { draw, open, close, left_out };
  Kind kind;
  sim::Label label;
  std::uint32_t n;
  std::uint32_t value;
};

void keep_text(char (&to)[kTextBytes], const std::string& from) {
  const std::size_t size = std::min(from.size(), kTextBytes - 1);
  std::memcpy(to, from.data(), size);
  to[size] = 0;
}

std::uint64_t events_of(const void* world) {
  return static_cast<const sim::World*>(world)->events();
}

constexpr const char* kHang = "one event took more than 20 s of processor time";
static_assert(StepLimit::kSeconds == 20);

}  // namespace

struct IsolatedRunner::Shared {
  bool done;
  bool failed, stalled, exhausted, script_stuck, too_long;
  std::uint32_t oracle;
  std::uint64_t time, events, hash;
  char seen[kTextBytes];
  char rule[kTextBytes];  // rule that the traces violate
  char scenario[kTextBytes];
  std::uint64_t entry_count;
  Entry entries[kMaxEntries];
};

namespace {

// Writes the choice log to shared memory, so that the parent can read it even if this process crashes.
template <class Shared>
class SharedLog final : public sim::ChoiceObserver {
 public:
  SharedLog(Shared& shared, std::uint64_t longest) noexcept : shared_(shared), longest_(longest) {}
  void set_observer(sim::ChoiceObserver* narrator) noexcept { observer_ = narrator; }
  void drawn(const sim::Draw& draw) override {
    add({Entry::Kind::draw, draw.label, draw.n, draw.value});
    if (observer_ != nullptr) observer_->drawn(draw);
  }
  void opened(sim::Label label) override { add({Entry::Kind::open, label, 0, 0}); }
  void closed() override { add({Entry::Kind::close, sim::Label::none, 0, 0}); }
  void left_out(sim::Label label) override { add({Entry::Kind::left_out, label, 0, 0}); }

 private:
  void add(const Entry& entry) noexcept {
    if (shared_.entry_count < kMaxEntries) shared_.entries[shared_.entry_count++] = entry;
    if (shared_.entry_count <= longest_) return;
    shared_.too_long = true;
    _exit(0);
  }
  Shared& shared_;
  const std::uint64_t longest_;
  sim::ChoiceObserver* observer_ = nullptr;
};

}  // namespace

IsolatedRunner::IsolatedRunner() {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) shared_ = static_cast<Shared*>(memory);
  stderr_ = memfd_create("urtrs-sim-stderr", MFD_CLOEXEC);
}

IsolatedRunner::~IsolatedRunner() {
  if (shared_ != nullptr) munmap(shared_, sizeof(Shared));
  if (stderr_ >= 0) close(stderr_);
}

void IsolatedRunner::ask_specification() {
  if (!specification_) specification_ = std::make_unique<LiveJudge>();
}

void IsolatedRunner::child(sim::WorldOptions options, const MakeChoice& make) noexcept {
  if (stderr_ >= 0) dup2(stderr_, STDERR_FILENO);
  if (options.trace.empty()) options.listeners = specification_.get();
  SharedLog<Shared> choice_log(*shared_, longest_log_);
  const std::unique_ptr<sim::ChoiceSource> choice = make();
  choice->observe(&choice_log);
  auto world = std::make_unique<sim::World>(options, *choice);
  keep_text(shared_->scenario, world->describe());
  Schedule schedule(*world);
  if (options.verbose) {
    // Line buffering keeps the output printed before a crash.
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::printf("scenario: %s\n", shared_->scenario);
    choice_log.set_observer(&schedule);
  }
  const sim::WorldResult result = [&world] {
    const StepLimit limit(&events_of, world.get());
    return world->run();
  }();
  choice_log.set_observer(nullptr);
  world.reset();  // the destructor completes the trace files
  shared_->failed = result.failed;
  shared_->stalled = result.stalled;
  shared_->exhausted = result.exhausted;
  shared_->script_stuck = result.script_stuck;
  shared_->oracle = static_cast<std::uint32_t>(result.failure.oracle);
  shared_->time = result.failed ? result.failure.time : result.virtual_time;
  shared_->events = result.events;
  shared_->hash = result.hash;
  keep_text(shared_->seen, result.failure.text);
  if (specification_ && !result.failed && result.honest) {
    const auto violation =
        options.trace.empty() ? specification_->verdict() : rtrs::tools::judge_traces(options.trace);
    if (violation) {
      shared_->failed = true;
      shared_->time = violation->time;
      keep_text(shared_->seen, violation->seen);
      keep_text(shared_->rule, violation->oracle + " " + violation->id);
    }
  }
  shared_->done = true;
  std::fflush(stdout);
}

void IsolatedRunner::read_choice_log(sim::ChoiceLog& choice_log) const {
  std::vector<std::size_t> open;
  for (std::uint64_t at = 0; at < shared_->entry_count; ++at) {
    const Entry& entry = shared_->entries[at];
    const std::size_t draws = choice_log.draws.size();
    const auto depth = static_cast<std::uint32_t>(open.size());
    switch (entry.kind) {
      case Entry::Kind::draw:
        choice_log.draws.push_back({entry.label, entry.n, entry.value});
        break;
      case Entry::Kind::open:
        open.push_back(choice_log.groups.size());
        choice_log.groups.push_back({entry.label, depth, draws, draws});
        break;
      case Entry::Kind::close:
        if (open.empty()) break;
        choice_log.groups[open.back()].end = draws;
        open.pop_back();
        break;
      case Entry::Kind::left_out:
        choice_log.groups.push_back({entry.label, depth, draws, draws, true});
        break;
    }
  }
  // Closes the groups that are still open because the process ended early.
  for (const std::size_t group : open) choice_log.groups[group].end = choice_log.draws.size();
}

std::string IsolatedRunner::last_words() const {
  char text[1024];
  const ssize_t size = stderr_ < 0 ? 0 : pread(stderr_, text, sizeof text, 0);
  const std::string all(text, size < 0 ? 0 : static_cast<std::size_t>(size));
  return all.substr(0, all.find('\n'));
}

IsolatedResult IsolatedRunner::run(const sim::WorldOptions& options, const MakeChoice& make) {
  shared_->done = shared_->failed = shared_->stalled = shared_->exhausted = shared_->script_stuck =
      shared_->too_long = false;
  shared_->entry_count = shared_->events = shared_->hash = 0;
  shared_->time = 0;
  shared_->seen[0] = shared_->rule[0] = shared_->scenario[0] = 0;
  if (stderr_ >= 0 && ftruncate(stderr_, 0) == 0) lseek(stderr_, 0, SEEK_SET);
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    child(options, make);
    _exit(0);
  }
  IsolatedResult result;
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) {
    result.signature = result.seen = "no process could be started";
    return result;
  }
  result.scenario = shared_->scenario;
  read_choice_log(result.choice_log);
  result.log_entries = shared_->entry_count;
  result.failed = !shared_->too_long && (!shared_->done || shared_->failed);
  result.time = shared_->time;
  result.events = shared_->events;
  result.hash = shared_->hash;
  if (!result.failed) return result;
  if (!shared_->done) {
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    result.stalled = signal == StepLimit::kSignal;
    const std::string words = result.stalled ? kHang : last_words();
    result.seen = "the process ended" + (signal != 0 ? " with signal " + std::to_string(signal) : "") +
                  (words.empty() ? "" : ": " + words);
    result.signature = "signal " + std::to_string(signal) + " " + without_numbers(words);
  } else if (shared_->failed) {
    result.stalled = shared_->stalled;
    result.seen = shared_->seen;
    result.signature = shared_->rule[0] != 0 ? std::string(shared_->rule)
                                             : sim::id_of(static_cast<sim::Oracle>(shared_->oracle));
    if (shared_->exhausted) result.signature += " (events)";
    if (shared_->script_stuck) result.signature += " (not played)";
  }
  return result;
}

}  // namespace rtrs::tools
