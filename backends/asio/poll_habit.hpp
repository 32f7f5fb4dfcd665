// Whether it pays to go on asking for news for a moment before sleeping. Decisions only: no clock.
//
// Asking saves the sleep and the waking where news comes soon, and is wasted where it does not. So it is done
// while at least half of the times of late found something; and otherwise once in a while, to see whether
// that is so again.
#pragma once
#include <algorithm>

namespace rtrs::asio {

class PollHabit {
 public:
  static constexpr unsigned kMost = 8;    // times in a row that may find nothing
  static constexpr unsigned kTrial = 64;  // sleeps from one trial to the next

  // Asked before each sleep. After true, found() or found_nothing() follows.
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
  unsigned sleeps_ = 0;  // without asking, since the last trial
};

}  // namespace rtrs::asio
