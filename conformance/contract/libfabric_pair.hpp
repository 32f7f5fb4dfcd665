// Two libfabric fabrics in one process.
#pragma once
#include <poll.h>

#include <chrono>
#include <memory>
#include <string>

#include "backends/libfabric/ofi.hpp"
#include "conformance/contract/contract.hpp"

namespace rtrs::conformance {

inline Nanos steady_now() {
  return static_cast<Nanos>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// Returns a port of this host where nobody listens: a port that was free a moment ago and that the kernel
// does not assign again soon.
std::uint16_t unused_port();

class LibfabricPair final : public FabricPair {
 public:
  // nullptr if this libfabric does not have the provider.
  static std::unique_ptr<LibfabricPair> open(const char* provider, const char* host,
                                             ofi::OfiOptions options = {});

  ofi::OfiFabric& client() override { return *client_; }
  ofi::OfiFabric& server() override { return *server_; }
  PathAddress listen_address() override { return {.source = {}, .destination = host_, .port = 0}; }
  PathAddress server_address() override {
    return {.source = {}, .destination = host_, .port = server_->listening_port()};
  }
  PathAddress unused_address() override {
    return {.source = {}, .destination = host_, .port = unused_port()};
  }
  Nanos now() override { return steady_now(); }
  bool idle() override;
  unsigned patience() const override { return 200; }
  bool kill_server() override {
    server_.reset();
    return true;
  }

 private:
  std::string host_;
  std::unique_ptr<ofi::OfiFabric> client_;
  std::unique_ptr<ofi::OfiFabric> server_;
};

}  // namespace rtrs::conformance
