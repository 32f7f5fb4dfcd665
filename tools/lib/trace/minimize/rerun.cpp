#include "tools/lib/trace/minimize/rerun.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tools/lib/trace/choice_log/step_limit.hpp"

namespace rtrs::tools {

struct Rerun::Shared {
  bool done;
  std::uint64_t records;
  std::uint64_t fed;
  char broken[256];
};

namespace {
// Returns the size of the shared memory, which contains Shared, then the indexes of inputs, then their record
// numbers.
template <class Shared>
constexpr std::size_t bytes() {
  return sizeof(Shared) + Rerun::kMaxInputs * sizeof(std::uint32_t) * 2;
}
}  // namespace

Rerun::Rerun(std::string path, Judge judge) : path_(std::move(path)), judge_(std::move(judge)) {
  void* memory = mmap(nullptr, bytes<Shared>(), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) shared_ = static_cast<Shared*>(memory);
  stderr_ = memfd_create("urtrs-replay-stderr", MFD_CLOEXEC);
}

Rerun::~Rerun() {
  if (shared_ != nullptr) munmap(shared_, bytes<Shared>());
  if (stderr_ >= 0) close(stderr_);
}

std::uint32_t* Rerun::fed() const {
  return reinterpret_cast<std::uint32_t*>(shared_ + 1);
}
std::uint32_t* Rerun::record_of() const {
  return fed() + kMaxInputs;
}
std::uint64_t Rerun::records() const {
  return shared_->records;
}

void Rerun::child(const MachineTrace& machine, const Inputs& candidate, const RunOptions& how) noexcept {
  if (stderr_ >= 0) dup2(stderr_, STDERR_FILENO);
  RunOptions options = how;
  options.before = [this](std::uint32_t input, std::uint64_t record) {
    fed()[shared_->fed] = input;
    record_of()[shared_->fed++] = static_cast<std::uint32_t>(record);
  };
  const StepLimit limit([](const void* fed) { return *static_cast<const std::uint64_t*>(fed); },
                        &shared_->fed);
  const Written written = write_run(machine, candidate, path_, options);
  shared_->records = written.records;
  if (written.broken != nullptr) std::snprintf(shared_->broken, sizeof shared_->broken, "%s", written.broken);
  shared_->done = written.error == 0;
}

std::optional<Failing> Rerun::run(const MachineTrace& machine, const Inputs& candidate,
                                  const RunOptions& options) {
  error_.clear();
  stopped_ = false;
  if (candidate.size() > kMaxInputs) return std::nullopt;
  shared_->done = false;
  shared_->records = 0;
  shared_->fed = 0;
  shared_->broken[0] = 0;
  if (stderr_ >= 0 && ftruncate(stderr_, 0) == 0) lseek(stderr_, 0, SEEK_SET);
  std::fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    child(machine, candidate, options);
    _exit(0);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) {
    error_ = "no process could be started";
    return std::nullopt;
  }
  Inputs used(fed(), fed() + shared_->fed);
  if (WIFSIGNALED(status)) {
    stopped_ = true;
    const std::string words = last_words(WTERMSIG(status));
    return Failing{std::move(used), "the core crashed: " + words, words};
  }
  if (!shared_->done) {
    error_ = "cannot write " + path_;
    return std::nullopt;
  }
  if (shared_->broken[0] != 0)
    return Failing{std::move(used), std::string("broken invariant: ") + shared_->broken, shared_->broken};
  return judged(std::move(used));
}

std::optional<Failing> Rerun::judged(Inputs used) {
  if (!judge_) return std::nullopt;
  const auto fault = judge_(path_);
  if (!fault) {
    error_ = fault.error();
    return std::nullopt;
  }
  if (!*fault) return std::nullopt;
  std::size_t inputs = 0;
  while (inputs < used.size() && record_of()[inputs] <= (*fault)->record) ++inputs;
  used.resize(inputs);
  return Failing{std::move(used), (*fault)->failure, (*fault)->seen};
}

std::string Rerun::last_words(int signal) const {
  if (signal == StepLimit::kSignal) return "one input took more than 20 s of processor time";
  char text[512];
  const ssize_t size = stderr_ < 0 ? 0 : pread(stderr_, text, sizeof text, 0);
  const std::string words(text, size < 0 ? 0 : static_cast<std::size_t>(size));
  return words.empty() ? "signal " + std::to_string(signal) : words.substr(0, words.find('\n'));
}

}  // namespace rtrs::tools
