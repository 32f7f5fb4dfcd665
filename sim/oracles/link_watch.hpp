// O14: link events of a client alternate, the first is "up", and each is told when the number of connected
// paths becomes or leaves zero.
#pragma once
#include <cstdint>

#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class LinkWatch {
 public:
  explicit LinkWatch(Judge& judge) : judge_(judge) {}
  void path_connected() { ++connected_; }
  void path_lost() { --connected_; }
  void link(bool up, Nanos now);
  // When no news is left.
  void check(Nanos now);
  void clear() { connected_ = 0, up_ = false; }
  bool up() const noexcept { return up_; }
  Nanos since() const noexcept { return since_; }

 private:
  Judge& judge_;
  int connected_ = 0;
  bool up_ = false;
  Nanos since_ = 0;
};

}  // namespace rtrs::sim
