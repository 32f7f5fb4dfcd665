// O14: a client's link events alternate and start with "up". A link event is reported whenever the number of
// connected paths changes from or to zero.
#pragma once
#include "sim/oracles/client_oracle.hpp"

namespace rtrs::sim {

class LinkWatch : public ClientOracle {
 public:
  explicit LinkWatch(Judge& judge) : judge_(judge) {}
  void path_connected() { ++connected_; }
  void path_lost() { --connected_; }
  void started() override { connected_ = 0, up_ = false; }
  void path(const PathChanged&, bool was_connected, Nanos) override;
  void link(bool up, Nanos now) override;
  void poll_ends(Nanos now) override { check(now); }
  void check(Nanos now);

 private:
  Judge& judge_;
  int connected_ = 0;
  bool up_ = false;
};

}  // namespace rtrs::sim
