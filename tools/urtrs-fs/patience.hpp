// How long a process is waited for that may hang, and when it is not asked at all.
//
// Requests come one at a time, so a process that hangs holds up each that waits behind it. One that did not
// answer is left out for a while, and has less time afterwards, where there are others. It may have been slow
// once, so that it gets more again.
#pragma once
#include <algorithm>
#include <chrono>

namespace rtrs::admin {

class Patience {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kSkipped{10};
  static constexpr std::chrono::milliseconds kWhole{5000}, kLeast{300}, kMostOfASilentOne{1200};

  bool asks(Time now) const { return now >= skipped_until_; }
  // `alone`: there is no other.
  std::chrono::milliseconds time(bool alone) const { return alone ? kWhole : time_; }
  void answered() { time_ = kWhole; }
  void silent(Time now) {
    skipped_until_ = now + kSkipped;
    time_ = time_ == kWhole ? kLeast : std::min(2 * time_, kMostOfASilentOne);
  }

 private:
  Time skipped_until_{};
  std::chrono::milliseconds time_ = kWhole;
};

}  // namespace rtrs::admin
