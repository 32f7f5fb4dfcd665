// Host names with several addresses: which are dead, and when one dies.
#include "sim/cluster/world.hpp"
#include "sim/network/sim_fabric.hpp"

namespace rtrs::sim {

namespace {

// Ports of the server: as many as addresses may belong to one path.
std::uint32_t port_of(std::uint32_t path, std::uint32_t number) {
  return number == 0 ? path : kMaxPaths * number + path;
}

// Number 0 is the address of the path's link, number 1 the address at which the path reconnects after number
// 0 has died; dead addresses begin at number 2.
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

PathAddress World::address(std::uint32_t client, std::uint32_t path) const {
  return {to_text(PortAddress{client + 1, path}), destination(scenario_.names, path), 1234};
}

void World::resolve_names(ClientNode& client) {
  client.names.reset();
  if (!scenario_.names.any()) return;
  Fabric& network = client.lies ? static_cast<Fabric&>(*client.lies) : *client.sim;
  client.names = std::make_unique<NamedFabric>(network);
}

void World::kill_addresses(bool at_the_end) {
  const Names& names = scenario_.names;
  const std::uint32_t first = at_the_end ? 0 : 2;
  const std::uint32_t count = at_the_end ? (names.dies ? 1 : 0) : names.before + names.after;
  for (const auto& client : clients_)
    for (std::uint32_t path = 0; path < scenario_.paths; ++path)
      for (std::uint32_t number = first; number < first + count; ++number) {
        const LinkId link = network_.link(client->id, path, server_.id, port_of(path, number));
        network_.kill(link, Way::to_server);
        network_.kill(link, Way::to_client);
      }
}

bool World::has_events(const Node& node) const noexcept {
  return network_.has_events(node.id) || (node.names != nullptr && node.names->has_events());
}

}  // namespace rtrs::sim
