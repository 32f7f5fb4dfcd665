// A server of memory disks over the loop of the benchmarks, for tests that decide when the server answers: it
// takes a step only when step() is called.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <utility>

#include "backends/asio/fabric_pump.hpp"
#include "conformance/bench/loop_fabric.hpp"
#include "conformance/memory/memory_service.hpp"
#include "core/driver/server.hpp"

namespace rtrs::conformance {

class LoopServer {
 public:
  explicit LoopServer(MemoryDisks& disks)
      : service_(disks), server_(config(), nullptr), near_(std::make_unique<bench::LoopFabric>()) {
    bench::LoopFabric::join(*near_, far_);
    server_.listen(far_, asio::steady_now(), {});
  }
  // The client's end. Once only. No step() after the client has destroyed it.
  std::unique_ptr<Fabric> take_client_fabric() { return std::move(near_); }

  void step() {
    const Nanos now = asio::steady_now();
    std::array<ServerEvent, 32> events;
    const std::size_t count = server_.poll(far_, now, events);
    for (const ServerEvent& event : std::span(events).first(count))
      service_.handle(server_, far_, now, event);
  }

 private:
  static ServerConfig config() {
    ServerConfig config;
    config.queue_depth = 64;
    config.imm_consumes_receive = false;
    config.send_invalidate = false;
    return config;
  }

  MemoryService service_;
  bench::LoopFabric far_;
  Server server_;
  std::unique_ptr<bench::LoopFabric> near_;
};

}  // namespace rtrs::conformance
