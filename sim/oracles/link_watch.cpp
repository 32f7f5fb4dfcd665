#include "sim/oracles/link_watch.hpp"

#include <string>

namespace rtrs::sim {

void LinkWatch::path(const PathChanged& change, bool was_connected, Nanos) {
  if (change.state == PathState::connected)
    path_connected();
  else if (was_connected)
    path_lost();
}

void LinkWatch::link(bool up, Nanos now) {
  if (up == up_) judge_.fail(Oracle::links, now, up ? "link up twice" : "link down without having been up");
  up_ = up;
}

void LinkWatch::check(Nanos now) {
  if (up_ != (connected_ > 0))
    judge_.fail(Oracle::links, now,
                std::string("the link is said to be ") + (up_ ? "up" : "down") + " with " +
                    std::to_string(connected_) + " connected paths");
}

std::unique_ptr<ClientOracle> make_links(Judge& judge) {
  return std::make_unique<LinkWatch>(judge);
}

}  // namespace rtrs::sim
