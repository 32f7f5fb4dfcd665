// What a world over the TCP fabric has besides.
#include <algorithm>

#include "sim/world/scenario.hpp"

namespace rtrs::sim {

// Not draws of their own, so that a seed is the same world over either fabric.
tcp::TcpOptions tcp_options(const Scenario& s) {
  const auto ms = [](Nanos time) {
    return static_cast<unsigned>(std::max<Nanos>(time / milliseconds(1), 1));
  };
  tcp::TcpOptions options;
  options.crc = s.client.seed / 7 % 2 == 1;
  options.handshake_timeout_ms = ms(s.server.handshake_timeout);
  options.undelivered_timeout_ms = ms(s.network.retry_budget);
  options.drain_timeout_ms = ms(s.interval);
  if (s.network.rnr_budget != 0) options.receive_timeout_ms = ms(s.network.rnr_budget);
  return options;
}

}  // namespace rtrs::sim
