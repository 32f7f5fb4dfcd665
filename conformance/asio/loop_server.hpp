// A server of memory disks over the loop of the benchmarks, for tests that decide when the server answers: it
// takes a step only when step() is called.
#pragma once
#include <memory>
#include <utility>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "conformance/bench/loop_fabric.hpp"
#include "sim/memory/memory_store.hpp"

namespace rtrs::conformance {

class LoopServer {
 public:
  explicit LoopServer(MemoryDisks& disks)
      : store_(disks), server_(config(), 0, nullptr), near_(std::make_unique<bench::LoopFabric>()) {
    bench::LoopFabric::join(*near_, far_);
    server_.listen(far_, asio::steady_now(), {});
  }
  // The client's end. Once only. No step() after the client has destroyed it.
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

  MemoryStore store_;
  bench::LoopFabric far_;
  BlockServer server_;
  std::unique_ptr<bench::LoopFabric> near_;
};

}  // namespace rtrs::conformance
