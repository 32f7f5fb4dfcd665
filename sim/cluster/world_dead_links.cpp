// Links that are dead for good, and what they must not keep from happening.
#include <algorithm>

#include "sim/cluster/world.hpp"

namespace rtrs::sim {

namespace {

template <class Client>
bool is_missing(const Client& client, const PathAddress& address) {
  return std::any_of(client.missing.begin(), client.missing.end(),
                     [&](const PathAddress& one) { return one.source == address.source; });
}

}  // namespace

bool World::is_dead(const ClientNode& client, unsigned path) const {
  if (!links_killed_) return false;
  for (std::uint32_t port = 0; port < scenario_.paths; ++port)
    if (client.address_of[path].source == address(client.id - 1, port).source)
      return scenario_.dead_links.holds(client.id - 1, port);
  return false;
}

// Neither dead for good nor removed.
bool World::lives(const ClientNode& client, std::uint32_t port) const {
  if (links_killed_ && scenario_.dead_links.holds(client.id - 1, port)) return false;
  return !is_missing(client, address(client.id - 1, port));
}

std::uint32_t World::living_paths(const ClientNode& client) const {
  std::uint32_t living = 0;
  for (std::uint32_t port = 0; port < scenario_.paths; ++port) living += lives(client, port) ? 1 : 0;
  return living;
}

// A random operator leaves one path unless it may remove all, and where removed paths do not come back one
// whose link lives.
bool World::may_remove(const ClientNode& client, std::uint32_t path) const {
  if (scenario_.removes_all) return !is_missing(client, client.address_of[path]);
  if (!scenario_.removes_for_good) return client.missing.empty() && scenario_.paths > 1;
  if (is_missing(client, client.address_of[path])) return false;
  std::uint32_t others = 0;
  for (std::uint32_t port = 0; port < scenario_.paths; ++port) {
    const bool dies = scenario_.dead_links.holds(client.id - 1, port);
    const bool this_one = client.address_of[path].source == address(client.id - 1, port).source;
    if (!dies && !this_one && lives(client, port)) ++others;
  }
  return others != 0;
}

void World::kill_links() {
  const DeadLinks& dead = scenario_.dead_links;
  links_killed_ = dead.any();
  for (const auto& client : clients_) {
    for (std::uint32_t path = 0; path < scenario_.paths; ++path) {
      if (!dead.holds(client->id - 1, path)) continue;
      const LinkId link = network_.link(client->id, path, server_.id, path);
      if ((dead.ways & 1U) != 0) network_.kill(link, Way::to_server);
      if ((dead.ways & 2U) != 0) network_.kill(link, Way::to_client);
    }
  }
}

void World::cut_living() {
  for (const auto& client : clients_) {
    for (std::uint32_t path = 0; path < scenario_.paths; ++path) {
      if (scenario_.dead_links.holds(client->id - 1, path)) continue;
      const LinkId link = network_.link(client->id, path, server_.id, path);
      network_.cut(link, Way::to_server);
      network_.cut(link, Way::to_client);
    }
  }
}

// Before any fault: dead links hold up the first path that comes up by no more than the head starts of those
// that try before it.
bool World::connects_in_time() {
  const LivenessBound bound = liveness_bound(scenario_);
  if (scenario_.directed || scenario_.client.lead_head_start == kNever) return true;
  const Nanos until = now() + bound.lead + 2 * scenario_.interval + 4 * scenario_.network.channel_spread;
  // It may be down again, where requests have a bound that slow storage exceeds.
  const auto came_up = [this] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [](const auto& client) { return client->last_connected != 0; });
  };
  if (run_while(until, came_up)) return true;
  if (!judge_.failed())
    judge_.fail(Oracle::promises, now(),
                "a client with a living link had no path when all head starts were over\n  " + unfinished());
  return false;
}

// A path over a dead link holds now nothing and now a connection that it tries: an operator takes those away.
void World::disconnect_dead() {
  for (const auto& client : clients_)
    for (unsigned path = 0; path < client->driver->session().paths().size(); ++path)
      if (is_dead(*client, path)) {
        client->promises->asked_to_end(path, now(*client));
        client->driver->session().disconnect_path(*client->fabric, now(*client), path);
      }
}

}  // namespace rtrs::sim
