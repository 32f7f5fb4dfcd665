// An eventfd: one side signals it, the other side polls and clears it.
#pragma once

#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {

class WakeUp {
 public:
  WakeUp();  // if no descriptor is available, fd() returns -1
  int fd() const noexcept { return event_.get(); }
  void signal() noexcept;  // may be called in any thread
  void clear() noexcept;

 private:
  UniqueFd event_;
};

}  // namespace rtrs::daemon
