// Decides whether polling for a moment before sleeping pays. Pure decision logic without a clock.
//
// Polling saves the sleep and the wake-up if an event arrives soon, and wastes processor time otherwise.
// pays() returns true while at least half of the recent attempts found something. After that, an occasional
// trial checks whether polling pays again.
#pragma once
#include <algorithm>

namespace rtrs::asio {

class PollHabit {
 public:
  static constexpr unsigned kMost = 8;    // maximum number of consecutive attempts that find nothing
  static constexpr unsigned kTrial = 64;  // number of sleeps between two trials

  // Call before each sleep. After a result of true, call found() or found_nothing().
  bool pays() noexcept {
    if (credit_ != 0) return true;
    sleeps_ = (sleeps_ + 1) % kTrial;
    return sleeps_ == 0;
  }
  void found() noexcept { credit_ = std::min(credit_ + 1, kMost); }
  void found_nothing() noexcept {
    if (credit_ != 0) --credit_;
  }

 private:
  unsigned credit_ = kMost;
  unsigned sleeps_ = 0;  // number of sleeps without polling since the last trial
};

}  // namespace rtrs::asio
