// An eventfd: one side signals, the other polls and clears.
#pragma once

#include "tools/urtrsd/storage/unique_fd.hpp"

namespace rtrs::daemon {

class WakeUp {
 public:
  WakeUp();  // without a descriptor when there are none; see fd()
  int fd() const noexcept { return event_.get(); }
  void signal() noexcept;  // any thread
  void clear() noexcept;

 private:
  UniqueFd event_;
};

}  // namespace rtrs::daemon
