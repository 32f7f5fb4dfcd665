// Handles SIGINT and SIGTERM for a program that prints a summary before it ends.
#pragma once
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

namespace rtrs::sim_tool {

// The signal that has requested the end of the program; 0: none. If the same signal arrives again, it ends
// the program immediately.
inline volatile std::sig_atomic_t stopped_by = 0;

inline void on_stop(int number) {
  stopped_by = number;
  std::signal(number, SIG_DFL);
}

// Returns true if a worker ended because the program is being stopped. `status`: result of waitpid().
inline bool was_stopped(int status) {
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return stopped_by != 0 && (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGKILL);
}

// Continues the text of report_stopped() if a result was asked for.
inline constexpr const char* kNoResult = "; no result was written, run the same command again";
// Prints on stderr that the program was stopped. `done`: the progress, for example "after 3 of 7 seeds".
// Returns the exit code.
inline int report_stopped(const std::string& done) {
  std::fprintf(stderr, "urtrs-sim: stopped by a signal (%s) %s\n", strsignal(stopped_by), done.c_str());
  return 128 + stopped_by;
}

// During its lifetime, the first SIGINT or SIGTERM only sets stopped_by, so that a command can end in an
// orderly way. Child processes that are forked meanwhile inherit this.
class StopSignals {
 public:
  StopSignals() : interrupt_(std::signal(SIGINT, on_stop)), terminate_(std::signal(SIGTERM, on_stop)) {
    stopped_by = 0;
  }
  ~StopSignals() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGTERM, terminate_);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  void (*interrupt_)(int);
  void (*terminate_)(int);
};

// Blocks both signals in this process and in its child processes, until end() is called or the object is
// destroyed.
class BlockedStops {
 public:
  BlockedStops() {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGINT);
    sigaddset(&stops, SIGTERM);
    sigprocmask(SIG_BLOCK, &stops, &before_);
  }
  ~BlockedStops() { end(); }
  BlockedStops(const BlockedStops&) = delete;
  BlockedStops& operator=(const BlockedStops&) = delete;

  void end() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace rtrs::sim_tool
