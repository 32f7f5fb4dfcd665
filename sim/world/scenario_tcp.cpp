// Additional options of a world over the TCP fabric.
#include <algorithm>

#include "sim/world/scenario.hpp"

namespace rtrs::sim {

// Derived from the client seed instead of a draw, so that a seed gives the same world over each fabric.
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
