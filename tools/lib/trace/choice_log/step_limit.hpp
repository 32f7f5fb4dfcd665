// Ends a child process that hangs in one step, however many steps a long run has. The measure is processor
// time, so that neither a busy machine nor a stopped process looks like a hang.
#pragma once
#include <sys/time.h>

#include <csignal>
#include <cstdint>

namespace rtrs::tools {

// While an object exists, a step that takes between one and two times kSeconds of processor time ends the
// process with signal kSignal. One object in a process at a time. A fork() does not copy the limit.
class StepLimit {
 public:
  static constexpr int kSignal = SIGPROF;
  static constexpr int kSeconds = 20;
  // Returns the number of steps so far. Called in a signal handler of the thread that makes the steps.
  using Steps = std::uint64_t (*)(const void* of);

  StepLimit(Steps steps, const void* of, int seconds = kSeconds) noexcept {
    steps_ = steps;
    of_ = of;
    seen_ = steps(of);
    std::signal(kSignal, look);
    set(seconds);
  }
  ~StepLimit() {
    set(0);
    std::signal(kSignal, SIG_DFL);
  }
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;

 private:
  static void set(int seconds) noexcept {
    const timeval every{seconds, 0};
    const itimerval timer{every, every};
    setitimer(ITIMER_PROF, &timer, nullptr);
  }
  static void look(int) noexcept {
    const std::uint64_t now = steps_(of_);
    if (now == seen_) {
      std::signal(kSignal, SIG_DFL);
      std::raise(kSignal);
    }
    seen_ = now;
  }

  static inline Steps steps_ = nullptr;
  static inline const void* of_ = nullptr;
  static inline std::uint64_t seen_ = 0;
};

}  // namespace rtrs::tools
