// O8: no path is declared dead while something was received from the peer within missed_max intervals, none
// is given up by a deadline while a message of the peer has arrived and was not read yet, and a silent peer
// is noticed within missed_max + 2. One watch a node; paths by the number in their ConKeys. A pause of the
// process excuses: time counts from its end.
#pragma once
#include <cstdint>
#include <vector>

#include "core/proto/config.hpp"
#include "core/proto/errc.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class HeartbeatWatch {
 public:
  // `rounding`: what both bounds may be missed by.
  HeartbeatWatch(Judge& judge, const HeartbeatConfig& config, Nanos rounding = 0)
      : judge_(judge), config_(config), rounding_(rounding) {}
  void connected(std::size_t path, Nanos now);
  void received(std::size_t path, Nanos now);
  // The path ended. `unread`: its fabric held a message of the peer then.
  void lost(std::size_t path, Reason reason, bool unread, Nanos now);
  bool is_connected(std::size_t path) const noexcept {
    return path < paths_.size() && paths_[path].connected;
  }
  void resumed(Nanos now) { resumed_ = now; }
  // Between peers that know the probe: one connection of the path gets nothing through, and has had a request
  // or response to deliver since then.
  void withheld(std::size_t path, Nanos since, Nanos now);
  // After the node has done everything that is due.
  void check(Nanos now);
  void clear() { paths_.clear(); }

 private:
  struct Path {
    bool connected = false;
    Nanos heard = 0;
  };
  Judge& judge_;
  HeartbeatConfig config_;
  Nanos rounding_ = 0;
  std::vector<Path> paths_;
  Nanos resumed_ = 0;
};

}  // namespace rtrs::sim
