// The tester and its peer in one simulation. Time is virtual, so waiting for heartbeats takes no real time.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "conformance/cases/bench.hpp"
#include "conformance/cases/server_tester.hpp"
#include "core/driver/client.hpp"
#include "sim/memory/memory_store.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::conformance {

// A bench with two nodes; `step` drives the node of the peer.
class SimBench final : public Bench {
 public:
  explicit SimBench(const Capabilities& capabilities = sim::default_capabilities());
  Nanos now() override { return network.now(); }
  void rest(Fabric& fabric, Nanos until) override;

  sim::ZeroChoice choice;
  sim::Network network;
  sim::SimFabric tester_fabric;
  sim::SimFabric peer_fabric;
  std::function<void(Nanos)> step = [](Nanos) {};
  std::function<Nanos()> deadline = [] { return kNever; };
};

// The urtrs server with a memory disk, as the peer.
class SimServer {
 public:
  using Change = std::function<void(ServerConfig&)>;
  static constexpr std::uint16_t kDepth = 24;
  static constexpr std::uint32_t kChunk = 65536;  // in bytes
  explicit SimServer(SimBench& bench, const Change& change = {})
      : SimServer(bench, bench.peer_fabric, change) {}
  // `fabric`: the fabric of the bench, or a test's fabric that forwards to the bench's.
  SimServer(SimBench&, Fabric& fabric, const Change& change);
  ServerSetup setup() const;

  sim::MemoryDisks disks;
  std::unique_ptr<BlockServer> server;
  sim::MemoryStore store;
};

// The urtrs client with an open device, as the peer. Reads and writes 100 times per second, at most two at a
// time.
class SimClient {
 public:
  // `fabric`: the fabric of the bench, or a test's fabric that forwards to the bench's.
  SimClient(SimBench&, Fabric& fabric, const std::function<void(ClientConfig&)>& change = {});
  // Closes the session, then opens a new one.
  void reopen_session();

 private:
  void begin(Nanos now);
  void step(Nanos now);
  void ask(Nanos now, std::uint64_t kind);

  SimBench& bench_;
  Fabric& fabric_;
  ClientOptions options_;
  std::unique_ptr<Client> client_;
  std::vector<std::byte> info_, opened_, data_;
  unsigned in_flight_ = 0;
  Nanos next_io_ = 0;
  bool write_next_ = true;
};

}  // namespace rtrs::conformance
