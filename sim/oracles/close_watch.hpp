// O20, of a process that was told to close: it waits for what is in flight as long as its timeouts say, then
// ends its connections, and has closed when they are drained, whatever is dead. Times are those of its clock.
#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class CloseWatch {
 public:
  // `wait`: until it ends its connections. `drain`: from then on.
  CloseWatch(Judge& judge, std::string who, Nanos now, Nanos wait, Nanos drain)
      : judge_(judge), who_(std::move(who)), since_(now), wait_(wait), drain_(drain) {}

  // It stands still until then.
  void paused(Nanos until) noexcept { since_ = std::max(since_, until); }
  // It has done everything that is due, and has not closed. `ended`: all its connections are asked to end.
  void check(bool ended, Nanos now) const {
    constexpr Nanos kRounding = milliseconds(1);  // of its clock
    const Nanos bound = wait_ + kRounding + (ended ? drain_ : 0);
    if (now <= since_ + bound) return;
    judge_.fail(Oracle::promises, now,
                who_ + (ended ? " has not closed " : " has not ended its connections ") +
                    std::to_string(now - since_) + " ns after it was told to, which is more than " +
                    std::to_string(bound));
  }

 private:
  Judge& judge_;
  std::string who_;
  Nanos since_, wait_, drain_;
};

}  // namespace rtrs::sim
