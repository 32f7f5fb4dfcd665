// A server that comes back with other limits than before: a path to it cannot belong to a session that was
// opened with the former ones.
#include <array>

#include "sim/cluster/world.hpp"

namespace rtrs::sim {

void World::draw_limits() {
  ServerConfig& server = scenario_.server;
  server.queue_depth = usual_server_.queue_depth;
  server.chunk_size = usual_server_.chunk_size;
  server.max_hdr_size = usual_server_.max_hdr_size;
  if (!scenario_.server_changes || healed_ || choice_.draw(2, Label::cruel) == 0) return;
  reconfigured_ = true;
  static constexpr std::array<std::uint16_t, 6> kDepths{8, 1, 2, 3, 5, 16};
  switch (choice_.draw(3, Label::cruel)) {
    case 0:
      server.queue_depth = kDepths[choice_.draw(kDepths.size(), Label::cruel)];
      return;
    case 1:
      server.chunk_size *= 2;
      return;
    default:
      server.max_hdr_size /= 2;
  }
}

void World::restart_now(NodeId node) {
  network_.crash(node, true, choice_);
  carry_out(WorldFault{WorldFault::Kind::crash, node, now()});
  network_.restart(node);
  carry_out(WorldFault{WorldFault::Kind::restart, node, now()});
}

// From now on the server has its usual limits, and nobody has a session with others.
void World::settle_limits() {
  if (!reconfigured_ || scenario_.directed) return;
  if (scenario_.server != usual_server_) restart_now(server_.id);
  for (const auto& client : clients_) {
    const Client& session = client->driver->session();
    // A client that takes as many permits as it may does not tell how many the server offers.
    const bool tells = session.depth() < scenario_.client.max_depth;
    const bool usual = tells && session.depth() == usual_server_.queue_depth &&
                       session.max_io_size() == usual_server_.chunk_size - usual_server_.max_hdr_size;
    // One that has no session yet may be about to hear of the former limits.
    if (!usual) restart_now(client->id);
  }
}

}  // namespace rtrs::sim
