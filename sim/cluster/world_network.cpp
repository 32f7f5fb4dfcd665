// What carries the messages of a world.
#include "core/tcp/tcp_fabric.hpp"
#include "sim/cluster/world_run.hpp"
#include "sim/network/network.hpp"
#include "sim/pipes/pipe_network.hpp"

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
  scenario.network.capabilities = tcp::tcp_capabilities();
  scenario.keys = false;  // there it would be TLS
  return std::make_unique<PipeNetwork>(scenario.network, tcp_options(scenario), options.seed);
}

}  // namespace rtrs::sim
