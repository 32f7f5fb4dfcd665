// This program run a second time as another process: as `PROGRAM --child ROLE`. Roles are in child_roles.cpp.
#pragma once
#include <sys/types.h>

#include <string>

namespace rtrs::conformance {

class ChildProcess {
 public:
  // PSM's switches are taken out of its environment, so that PSM installs its signal handlers; sanitizers
  // leave SIGSEGV alone.
  explicit ChildProcess(const char* role);
  // Kills it when it still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The line it prints once it is ready; empty when none comes within ten seconds.
  const std::string& greeting() const noexcept { return greeting_; }
  // The signal it died of, sent `number`; 0 when it went on for ten seconds or ended in another way.
  int end_by(int number);

 private:
  pid_t pid_ = -1;
  std::string greeting_;
};

// What a child does; returns the exit status, if ever.
int play_child_role(const std::string& role);

}  // namespace rtrs::conformance
