#include "sim/oracles/link_watch.hpp"

#include <string>

namespace rtrs::sim {

void LinkWatch::link(bool up, Nanos now) {
  if (up == up_) judge_.fail(Oracle::links, now, up ? "link up twice" : "link down without having been up");
  up_ = up;
  since_ = now;
}

void LinkWatch::check(Nanos now) {
  if (up_ != (connected_ > 0))
    judge_.fail(Oracle::links, now,
                std::string("the link is said to be ") + (up_ ? "up" : "down") + " with " +
                    std::to_string(connected_) + " connected paths");
}

}  // namespace rtrs::sim
