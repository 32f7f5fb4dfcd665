#include "tools/urtrs-conform/real_bench.hpp"

#include <poll.h>

#include <algorithm>
#include <chrono>

namespace rtrs::conform_tool {

namespace {
// Maximum time of a sleep. Some events do not make the descriptor readable, so that only polling finds them.
constexpr Nanos kLongest = milliseconds(50);
}  // namespace

Nanos RealBench::now() {
  return static_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch().count());
}

void RealBench::rest(Fabric& fabric, Nanos until) {
  if (!fabric.try_wait()) return;
  const Nanos at = now();
  const Nanos left = std::min(until > at ? until - at : 0, kLongest);
  pollfd one{.fd = fabric.wait_fd(), .events = POLLIN, .revents = 0};
  ::poll(&one, 1, static_cast<int>(left / milliseconds(1)) + 1);
}

}  // namespace rtrs::conform_tool
