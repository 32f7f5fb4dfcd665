// O8: a path is not declared dead while something was received from the peer within missed_max intervals, nor
// while the fabric holds an unread message from the peer; a silent peer is detected within missed_max + 2
// intervals. One watch per node; paths are numbered as in their ConKeys. After a pause of the process, time
// counts from the end of the pause.
#pragma once
#include <cstdint>
#include <vector>

#include "core/proto/config.hpp"
#include "core/proto/errc.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class HeartbeatWatch {
 public:
  // `rounding`: tolerance of both bounds, ns.
  HeartbeatWatch(Judge& judge, const HeartbeatConfig& config, Nanos rounding = 0)
      : judge_(judge), config_(config), rounding_(rounding) {}
  void connected(std::size_t path, Nanos now);
  void received(std::size_t path, Nanos now);
  // Called when the path ends. `unread`: the fabric held an unread message from the peer at that time.
  void lost(std::size_t path, Reason reason, bool unread, Nanos now);
  bool is_connected(std::size_t path) const noexcept {
    return path < paths_.size() && paths_[path].connected;
  }
  void resumed(Nanos now) { resumed_ = now; }
  // Called, if the peers support the probe, for a connection that delivers nothing. `since`: time since which
  // a request or response on it is undelivered.
  void withheld(std::size_t path, Nanos since, Nanos now);
  // Called when the node has done everything that is due.
  void check(Nanos now);
  void clear() {
    paths_.clear();
    connected_.clear();
  }

 private:
  struct Path {
    bool connected = false;
    Nanos heard = 0;
  };
  Judge& judge_;
  HeartbeatConfig config_;
  Nanos rounding_ = 0;
  std::vector<Path> paths_;
  std::vector<std::size_t> connected_;  // indexes in paths_, ascending
  Nanos resumed_ = 0;
};

}  // namespace rtrs::sim
