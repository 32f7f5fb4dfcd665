// Two TCP fabrics in one process.
#pragma once
#include <poll.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "backends/tcp/tcp.hpp"
#include "conformance/contract/contract.hpp"

namespace rtrs::conformance {

class TcpPair final : public FabricPair {
 public:
  // nullptr if the fabrics cannot be opened.
  static std::unique_ptr<TcpPair> open(const char* host, const tcp::TcpOptions& options = {},
                                       const tcp::TlsOptions& tls = {});

  tcp::TcpFabric& client() override { return *client_; }
  tcp::TcpFabric& server() override { return *server_; }
  PathAddress listen_address() override { return {.source = {}, .destination = host_, .port = 0}; }
  PathAddress server_address() override {
    return {.source = {}, .destination = host_, .port = server_->listening_port()};
  }
  PathAddress unused_address() override;
  Nanos now() override {
    return static_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  bool idle() override;
  unsigned patience() const override { return 1200; }  // 30 s, for a loaded machine
  bool kill_server() override {
    server_.reset();
    return true;
  }

 private:
  std::string host_;
  std::unique_ptr<tcp::TcpFabric> client_;
  std::unique_ptr<tcp::TcpFabric> server_;
};

}  // namespace rtrs::conformance
