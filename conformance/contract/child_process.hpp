// Runs this program as a child process, `PROGRAM --child ROLE`. Roles are in child_roles.cpp.
#pragma once
#include <sys/types.h>

#include <string>

namespace rtrs::conformance {

class ChildProcess {
 public:
  // Starts the child with an environment in which the PSM libraries (Omni-Path) install their signal handlers
  // and sanitizers do not handle SIGSEGV.
  explicit ChildProcess(const char* role);
  // Kills the child if it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The line that the child prints when it is ready; empty if the child prints nothing within 10 s.
  const std::string& greeting() const noexcept { return greeting_; }
  // Sends signal `number`. Returns the signal that killed the child; 0 if the child still runs after 10 s or
  // ended otherwise.
  int end_by(int number);

 private:
  pid_t pid_ = -1;
  std::string greeting_;
};

// Plays a role in the child. Returns the exit status of the program. Some roles never return.
int play_child_role(const std::string& role);

}  // namespace rtrs::conformance
