// The links between the nodes of a cluster: host names, dead links and a path to a wrong server.
#include <algorithm>

#include "sim/net/queue_pairs/sim_fabric.hpp"
#include "sim/world/cluster.hpp"

namespace rtrs::sim {

namespace {

// Returns the server port behind address `number` of a path's host name.
std::uint32_t port_of(std::uint32_t path, std::uint32_t number) {
  return number == 0 ? path : kMaxPaths * number + path;
}

// Returns a host name as a list of addresses. Address 0 is the address of the path's link. If `dies` is set,
// address 0 dies during the run and the path reconnects at address 1. Addresses from 2 on are dead.
std::string destination(const Names& names, std::uint32_t path) {
  std::string text;
  const auto add = [&](std::uint32_t number) {
    text += (text.empty() ? "" : "|") + to_text(PortAddress{0, port_of(path, number)});
  };
  for (std::uint32_t i = 0; i < names.before; ++i) add(2 + i);
  add(0);
  if (names.dies) add(1);
  for (std::uint32_t i = 0; i < names.after; ++i) add(2 + names.before + i);
  return text;
}

}  // namespace

PathAddress Cluster::address(std::uint32_t client, std::uint32_t path) const {
  return {to_text(PortAddress{client + 1, path}), destination(scenario.names, path), 1234};
}

bool Cluster::is_dead(const ClientNode& client, unsigned path) const {
  if (!links_killed) return false;
  for (std::uint32_t port = 0; port < scenario.paths; ++port)
    if (client.address_of[path].source == to_text(PortAddress{client.id, port}))
      return scenario.dead_links.holds(client.id - 1, port);
  return false;
}

bool Cluster::lives(const ClientNode& client, std::uint32_t port) const {
  if (links_killed && scenario.dead_links.holds(client.id - 1, port)) return false;
  return client.missing.empty() || !client.is_missing(address(client.id - 1, port));
}

std::uint32_t Cluster::live_paths(const ClientNode& client) const {
  std::uint32_t living = 0;
  for (std::uint32_t port = 0; port < scenario.paths; ++port) living += lives(client, port) ? 1 : 0;
  return living;
}

void Cluster::kill_links() {
  const DeadLinks& dead = scenario.dead_links;
  links_killed = dead.any();
  for (const auto& client : clients) {
    for (std::uint32_t path = 0; path < scenario.paths; ++path) {
      if (!dead.holds(client->id - 1, path)) continue;
      const LinkId link = network.link(client->id, path, server.id, path);
      if ((dead.ways & 1U) != 0) network.kill(link, Way::to_server);
      if ((dead.ways & 2U) != 0) network.kill(link, Way::to_client);
    }
  }
}

void Cluster::cut_live_links() {
  for (const auto& client : clients) {
    for (std::uint32_t path = 0; path < scenario.paths; ++path) {
      if (scenario.dead_links.holds(client->id - 1, path)) continue;
      const LinkId link = network.link(client->id, path, server.id, path);
      network.cut(link, Way::to_server);
      network.cut(link, Way::to_client);
    }
  }
}

void Cluster::kill_addresses(bool at_the_end) {
  const Names& names = scenario.names;
  const std::uint32_t first = at_the_end ? 0 : 2;
  const std::uint32_t count = at_the_end ? (names.dies ? 1 : 0) : names.before + names.after;
  for (const auto& client : clients)
    for (std::uint32_t path = 0; path < scenario.paths; ++path)
      for (std::uint32_t number = first; number < first + count; ++number) {
        const LinkId link = network.link(client->id, path, server.id, port_of(path, number));
        network.kill(link, Way::to_server);
        network.kill(link, Way::to_client);
      }
}

bool Cluster::leads_to_other_server(const ClientNode& client, unsigned path) const {
  return other_server != nullptr && other_server->is_at(client.address_of[path]);
}

}  // namespace rtrs::sim
