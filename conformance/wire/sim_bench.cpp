#include "conformance/wire/sim_bench.hpp"

#include <gtest/gtest.h>

#include <array>

namespace rtrs::conform {

namespace {
sim::NetworkConfig config_of(const Capabilities& capabilities) {
  sim::NetworkConfig config;
  config.capabilities = capabilities;
  return config;
}
}  // namespace

SimBench::SimBench(const Capabilities& capabilities)
    : network(config_of(capabilities)),
      tester_fabric(network, network.add_node(), choice),
      peer_fabric(network, network.add_node(), choice) {}

void SimBench::rest(Fabric&, Nanos until) {
  step(network.now());
  if (network.has_events(tester_fabric.node()) || network.has_events(peer_fabric.node())) return;
  const Nanos next = std::min({network.next_time(), deadline(), until});
  network.run_until(std::max(next, network.now()), choice);
}

SimServer::SimServer(SimBench& bench, const std::function<void(ServerConfig&)>& change) : service(disks) {
  disks["disk"].bytes.resize(std::size_t{1} << 20);
  ServerConfig config;
  config.queue_depth = 24;
  config.chunk_size = 65536;
  config.send_depth = 128;
  if (change) change(config);
  server = std::make_unique<Server>(fit(config, bench.network.capabilities()), nullptr);
  for (const char* port : {"n1.p0", "n1.p1"}) {
    EXPECT_EQ(server->listen(bench.peer_fabric, bench.now(), PathAddress{"", port, 1234}), Errc::ok);
  }
  bench.step = [this, &bench](Nanos now) {
    std::array<ServerEvent, 16> events;
    const std::size_t count = server->poll(bench.peer_fabric, now, events);
    for (const ServerEvent& event : std::span(events).first(count))
      service.handle(*server, bench.peer_fabric, now, event);
  };
  bench.deadline = [this] { return server->next_deadline(); };
}

ServerSetup SimServer::setup() const {
  ServerSetup setup;
  setup.targets = {PathAddress{"n0.p0", "n1.p0", 1234}, PathAddress{"n0.p1", "n1.p1", 1234}};
  setup.device = "disk";
  setup.scratch = true;
  return setup;
}

}  // namespace rtrs::conform
