// A server of memory disks on the loop fabric of the benchmarks. The server runs only when step() is called,
// so a test decides when it answers.
#pragma once
#include <memory>
#include <utility>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "conformance/bench/loop_fabric.hpp"
#include "sim/memory/memory_store.hpp"

namespace rtrs::conformance {

class LoopServer {
 public:
  explicit LoopServer(sim::MemoryDisks& disks)
      : store_(disks), server_(config(), 0, nullptr), near_(std::make_unique<bench::LoopFabric>()) {
    bench::LoopFabric::join(*near_, far_);
    server_.listen(far_, asio::steady_now(), {});
  }
  // Returns the client's fabric. Call it only once, and do not call step() after the fabric was destroyed.
  std::unique_ptr<Fabric> take_client_fabric() { return std::move(near_); }

  void step() { store_.serve(server_, far_, asio::steady_now()); }

 private:
  static ServerConfig config() {
    ServerConfig config;
    config.queue_depth = 64;
    config.imm_consumes_receive = false;
    config.send_invalidate = false;
    return config;
  }

  sim::MemoryStore store_;
  bench::LoopFabric far_;
  BlockServer server_;
  std::unique_ptr<bench::LoopFabric> near_;
};

}  // namespace rtrs::conformance
