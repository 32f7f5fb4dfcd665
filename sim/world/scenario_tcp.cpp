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
  // Sets limits that a crowd, or the connections of a dead process, can reach. The limits always leave room
  // for the connections of all clients.
  const std::uint64_t number = s.client.seed / 2'750'159;
  if (number % 4 == 1) {
    const auto own = static_cast<unsigned>((s.paths + (s.other_server ? 1 : 0)) * s.client.con_num);
    const auto spare = static_cast<unsigned>(number / 4 % 4);
    if (number / 16 % 2 == 0) options.max_handshakes = s.clients * own + spare;
    if (number / 32 % 2 == 0) options.max_handshakes_per_host = own + spare;
    if (number / 64 % 2 == 0) options.max_connections = s.clients * own + spare;
    if (number / 128 % 2 == 0) options.max_connections_per_host = own + spare;
  }
  if (s.network.rnr_budget != 0) options.receive_timeout_ms = ms(s.network.rnr_budget);
  return options;
}

}  // namespace rtrs::sim
