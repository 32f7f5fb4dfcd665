// Creates the network of a world.
#include "core/tcp/tcp_fabric.hpp"
#include "sim/net/queue_pairs/network.hpp"
#include "sim/net/streams/pipe_network.hpp"
#include "sim/world/world_run.hpp"

namespace rtrs::sim {

std::unique_ptr<Net> make_network(Scenario& scenario, const WorldOptions& options, ChoiceSource& choice) {
  const bool over_adapters = options.make_net != nullptr;
  scenario = options.scenario != nullptr ? *options.scenario
                                         : draw_scenario(choice, options.over_tcp, over_adapters);
  if (options.filter != nullptr) take_out(*options.filter, scenario);
  scenario.over_tcp = scenario.over_tcp || options.over_tcp;
  scenario.over_adapters = over_adapters;
  if (over_adapters) {
    scenario.network.capabilities = default_capabilities();
    scenario.network.capabilities.name = "verbs-mock";
    return options.make_net(scenario.network, options.seed);
  }
  if (!scenario.over_tcp) return std::make_unique<Network>(scenario.network);
  const Capabilities can = scenario.network.capabilities = tcp::tcp_capabilities();
  // Limits that are valid for queue pairs may exceed those of TCP.
  scenario.server = clamp_to(scenario.server, can);
  scenario.client.probe_deliveries = can.done_means_delivered;
  scenario.client.imm_consumes_receive = can.imm_consumes_receive;
  scenario.client.offer_invalidation = scenario.client.offer_invalidation && can.per_io_keys;
  scenario.keys = false;  // over TCP, shared keys would need TLS
  auto network = std::make_unique<PipeNetwork>(scenario.network, tcp_options(scenario), options.seed);
  if (scenario.liar != kNone) network->allow_violations();
  return network;
}

}  // namespace rtrs::sim
