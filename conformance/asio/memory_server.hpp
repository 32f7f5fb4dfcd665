// A server of memory disks for tests: a BlockServer on libfabric, in the event loop of the test. The
// destructor does not disconnect clients, as if the server were killed.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "backends/libfabric/ofi.hpp"
#include "sim/memory/memory_store.hpp"

namespace rtrs::conformance {

class MemoryServer {
 public:
  struct Options {
    std::vector<std::string> listen{"127.0.0.1"};
    std::uint16_t port = 0;  // 0: any free port
    std::uint32_t first_generation = 0;
    HeartbeatConfig heartbeat{};
  };

  // `disks` must outlive the server. Throws std::runtime_error if it cannot listen.
  MemoryServer(boost::asio::io_context&, sim::MemoryDisks& disks, const Options&);
  MemoryServer(const MemoryServer&) = delete;
  MemoryServer& operator=(const MemoryServer&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  unsigned session_count() const noexcept { return server_->transport().session_count(); }

 private:
  bool step(Nanos now);

  sim::MemoryStore store_;
  std::unique_ptr<ofi::OfiFabric> fabric_;
  std::unique_ptr<BlockServer> server_;
  std::uint16_t port_ = 0;
  std::unique_ptr<asio::FabricPump> pump_;
};

}  // namespace rtrs::conformance
