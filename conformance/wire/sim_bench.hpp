// The tester and its peer in one simulated world: virtual time, so that waiting for heartbeats costs nothing.
#pragma once
#include <functional>

#include "conformance/memory/memory_service.hpp"
#include "conformance/wire/bench.hpp"
#include "conformance/wire/server_tester.hpp"
#include "core/driver/server.hpp"
#include "sim/sim_fabric.hpp"

namespace rtrs::conform {

// Two nodes; the peer's is moved by `step`.
class SimBench final : public Bench {
 public:
  explicit SimBench(const Capabilities& capabilities = sim::default_capabilities());
  Nanos now() override { return network.now(); }
  void rest(Fabric& fabric, Nanos until) override;

  sim::CalmChoice choice;
  sim::Network network;
  sim::SimFabric tester_fabric;
  sim::SimFabric peer_fabric;
  std::function<void(Nanos)> step = [](Nanos) {};
  std::function<Nanos()> deadline = [] { return kNever; };
};

// Our server with a memory disk, as the peer.
class SimServer {
 public:
  explicit SimServer(SimBench&, const std::function<void(ServerConfig&)>& change = {});
  ServerSetup setup() const;

  conformance::MemoryDisks disks;
  std::unique_ptr<Server> server;
  conformance::MemoryService service;
};

}  // namespace rtrs::conform
