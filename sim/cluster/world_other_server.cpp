// Paths that lead to another server by mistake.
#include "sim/cluster/world.hpp"

namespace rtrs::sim {

bool World::leads_astray(const ClientNode& client, unsigned path) const {
  return other_server_ != nullptr && other_server_->is_at(client.address_of[path]);
}

// Of the session that the client has at this server now.
unsigned World::paths_that_came_up(const ClientNode& client, bool astray) const {
  const std::uint32_t index = client.id - 1;
  if (astray) return other_server_->came_up("client" + std::to_string(index));
  unsigned paths = 0;
  for (std::size_t session = 0; session < server_.session_of.size(); ++session)
    if (server_.session_of[session] == index) paths += server_.came_up[session];
  return paths;
}

// A path has come up. It may have joined a session that an attempt of the client opened at its server and
// left behind, when the goodbye of that attempt was lost or is late: nothing in the protocol tells two
// servers apart.
void World::check_one_server(ClientNode& client, unsigned path) {
  const bool astray = leads_astray(client, path);
  if (astray) {
    judge_.mark(Mark::astray);
    // What it says of the requests that the right server still works for is worth nothing.
    for (const Oracle which :
         {Oracle::slot_exclusivity, Oracle::data_integrity, Oracle::history, Oracle::devices})
      judge_.excuse(which);
  }
  const auto paths = client.driver->session().paths();
  unsigned beside = 0, elsewhere = 0;
  for (unsigned other = 0; other < paths.size(); ++other) {
    if (other == path || paths[other].state != PathState::connected) continue;
    ++(leads_astray(client, other) == astray ? beside : elsewhere);
  }
  if (elsewhere == 0 || beside != 0) return;
  // Where it is the only path that ever came up, it has opened what it asked to join.
  if (client.fabric->joins(path) && paths_that_came_up(client, astray) != 1) {
    client.at_two_servers = true;
    judge_.mark(Mark::joined_astray);
  }
  if (client.at_two_servers) return;
  judge_.fail(Oracle::one_server, now(),
              "client " + std::to_string(client.id) + " made a session over path " + std::to_string(path) +
                  " and has " + std::to_string(elsewhere) + " paths to another server");
}

}  // namespace rtrs::sim
