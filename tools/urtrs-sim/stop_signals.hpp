// SIGINT and SIGTERM, for a program that sums up what it did before it ends.
#pragma once
#include <sys/wait.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

namespace rtrs::tools {

// The signal that asks the program to end; 0: none has come. A second one of its kind ends the program at
// once.
inline volatile std::sig_atomic_t stopped_by = 0;

inline void on_stop(int number) {
  stopped_by = number;
  std::signal(number, SIG_DFL);
}

// Whether a worker ended because somebody stops the program. `status`: of waitpid().
inline bool was_stopped(int status) {
  const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return stopped_by != 0 && (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGKILL);
}

// Says so on stderr, `done`: "after 3 of 7 seeds". The exit code.
inline int say_stopped(const std::string& done) {
  std::fprintf(stderr, "urtrs-sim: stopped by a signal (%s) %s\n", strsignal(stopped_by), done.c_str());
  return 128 + stopped_by;
}

// Lets the first SIGINT and SIGTERM end a command in good order, for as long as this lives. A child that is
// forked meanwhile outlives the first one as well.
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

// Holds both back in this process and those that it forks, until end() or the end of its life.
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

}  // namespace rtrs::tools
