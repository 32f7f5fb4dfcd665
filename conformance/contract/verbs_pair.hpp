// Two verbs fabrics in one process.
#pragma once
#include <memory>
#include <string>

#include "backends/verbs/verbs.hpp"
#include "conformance/contract/contract.hpp"

namespace rtrs::conformance {

// A non-link-local address of this family (AF_INET or AF_INET6) of an RDMA device of this machine; empty if
// there is none.
std::string verbs_address(int family);

class VerbsPair final : public FabricPair {
 public:
  // `idle_ms`: maximum sleep of an idle() call; patience() is 400 calls.
  static std::unique_ptr<VerbsPair> open(const std::string& host, const verbs::VerbsOptions& = {},
                                         int idle_ms = 50);

  verbs::VerbsFabric& client() override { return *client_; }
  verbs::VerbsFabric& server() override { return *server_; }
  PathAddress listen_address() override { return {.source = {}, .destination = host_, .port = 0}; }
  PathAddress server_address() override {
    return {.source = {}, .destination = host_, .port = server_->listening_port()};
  }
  PathAddress unused_address() override;
  Nanos now() override;
  bool idle() override;
  unsigned patience() const override { return 400; }
  bool kill_server() override {
    server_.reset();
    return true;
  }

 private:
  std::string host_;
  int idle_ms_ = 50;
  std::unique_ptr<verbs::VerbsFabric> client_;
  std::unique_ptr<verbs::VerbsFabric> server_;
};

}  // namespace rtrs::conformance
