// Sends failures from the workers of a sweep to their parent, so that one worker can report many failures.
#pragma once
#include <cstdint>
#include <string>

#include "tools/urtrs-sim/failure_groups.hpp"

namespace rtrs::sim_tool {

class FailurePipe {
 public:
  FailurePipe();  // if it fails, works() is false and errno has the cause
  ~FailurePipe();
  FailurePipe(const FailurePipe&) = delete;
  FailurePipe& operator=(const FailurePipe&) = delete;

  bool works() const noexcept { return ends_[0] >= 0; }
  // Called by a worker. Waits while the pipe is full. Long texts are cut.
  void send(const FoundFailure& failure) const;
  // Called by the parent. Adds all failures that were sent; does not wait.
  void receive(FailureGroups& groups) const;

 private:
  int ends_[2] = {-1, -1};
};

}  // namespace rtrs::sim_tool
