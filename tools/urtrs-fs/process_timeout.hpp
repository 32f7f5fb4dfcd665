// Time limit for requests to a process that may hang.
//
// Requests are made one at a time, so a hanging process delays all others. A process that did not answer is
// skipped for kSkipped. After that, its time limit is shorter if there are other processes, and grows again
// with each timeout, because the process may only have been slow.
#pragma once
#include <algorithm>
#include <chrono>

namespace rtrs::fs_tool {

class Patience {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kSkipped{10};
  static constexpr std::chrono::milliseconds kWhole{5000}, kLeast{300}, kMaxSilent{1200};

  bool asks(Time now) const { return now >= skipped_until_; }
  // Time limit for the next request. `alone`: no other process could be delayed.
  std::chrono::milliseconds time(bool alone) const { return alone ? kWhole : time_; }
  void answered() { time_ = kWhole; }
  void silent(Time now) {
    skipped_until_ = now + kSkipped;
    time_ = time_ == kWhole ? kLeast : std::min(2 * time_, kMaxSilent);
  }

 private:
  Time skipped_until_{};
  std::chrono::milliseconds time_ = kWhole;
};

}  // namespace rtrs::fs_tool
