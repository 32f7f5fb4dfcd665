#include "conformance/asio/memory_server.hpp"

#include <stdexcept>

namespace rtrs::conformance {

MemoryServer::MemoryServer(boost::asio::io_context& context, sim::MemoryDisks& disks, const Options& options)
    : store_(disks) {
  auto fabric = ofi::open_ofi_fabric({});
  if (!fabric) throw std::runtime_error(std::string("no fabric: ") + to_string(fabric.error()));
  fabric_ = std::move(*fabric);
  ServerConfig config;
  config.queue_depth = 64;
  config.heartbeat = options.heartbeat;
  server_ = std::make_unique<BlockServer>(clamp_to(config, fabric_->capabilities()), options.first_generation,
                                          nullptr);
  port_ = options.port;
  for (const std::string& address : options.listen) {
    const Errc listening = server_->listen(*fabric_, asio::steady_now(), PathAddress{"", address, port_});
    if (listening != Errc::ok)
      throw std::runtime_error("cannot listen on " + address + ": " + to_string(listening));
    if (port_ == 0) port_ = fabric_->listening_port();
  }
  pump_ = std::make_unique<asio::FabricPump>(
      context, *fabric_, asio::WaitMode::events,
      asio::FabricPump::Hooks{[this](Nanos now) { return step(now); },
                              [this] { return server_->next_deadline(); }});
  pump_->start();
}

bool MemoryServer::step(Nanos now) {
  return store_.serve(*server_, *fabric_, now);
}

}  // namespace rtrs::conformance
