// Service times of the requests of one path, from their arrival to the post of their response. Uses the times
// that are passed to poll(), so that no clock is read.
#pragma once
#include <array>
#include <cstddef>

#include "core/base/direction.hpp"
#include "core/base/histogram.hpp"

namespace rtrs {

class ServiceTimes {
 public:
  using Times = Histogram<4>;  // in nanoseconds
  Times& of(Direction direction) noexcept { return times_[static_cast<std::size_t>(direction)]; }
  const Times& of(Direction direction) const noexcept { return times_[static_cast<std::size_t>(direction)]; }
  void clear() noexcept {
    for (Times& one : times_) one.clear();
  }

 private:
  std::array<Times, 2> times_;
};

}  // namespace rtrs
