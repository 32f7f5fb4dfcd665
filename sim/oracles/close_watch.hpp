// O20 for a process that closes: it waits for requests in flight as long as its timeouts say, then ends its
// connections, and has closed when they are drained, even if a link or the peer is dead. Times are those of
// the process clock.
#pragma once
#include <algorithm>
#include <string>
#include <utility>

#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class CloseWatch {
 public:
  // `wait`: maximum time until the process ends its connections. `drain`: maximum time from then to its
  // close.
  CloseWatch(Judge& judge, std::string who, Nanos now, Nanos wait, Nanos drain)
      : judge_(judge), who_(std::move(who)), since_(now), wait_(wait), drain_(drain) {}

  // Called when the process is paused until `until`.
  void paused(Nanos until) noexcept { since_ = std::max(since_, until); }
  // Called when the process has done everything that is due and has not closed. `ended`: it has disconnected
  // all connections.
  void check(bool ended, Nanos now) const {
    constexpr Nanos kRounding = milliseconds(1);  // allowance for the rounding of process time
    const Nanos bound = wait_ + kRounding + (ended ? drain_ : 0);
    if (now <= since_ + bound) return;
    judge_.fail(Oracle::promises, now,
                who_ + (ended ? " has not closed " : " has not ended its connections ") +
                    std::to_string(now - since_) + " ns after close() was called; limit " +
                    std::to_string(bound));
  }

 private:
  Judge& judge_;
  std::string who_;
  Nanos since_, wait_, drain_;
};

}  // namespace rtrs::sim
