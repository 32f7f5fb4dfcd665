// Two fabrics on one simulated network.
#pragma once
#include <memory>

#include "conformance/contract/contract.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::conformance {

class SimPair final : public FabricPair {
 public:
  explicit SimPair(const Capabilities& capabilities, const sim::Rates& rates) : choice_(20261121) {
    sim::NetworkConfig config;
    config.capabilities = capabilities;
    network_ = sim::Network(config);
    network_.rates() = rates;
    const sim::NodeId client = network_.add_node();
    const sim::NodeId server = network_.add_node();
    client_ = std::make_unique<sim::SimFabric>(network_, client, choice_);
    server_ = std::make_unique<sim::SimFabric>(network_, server, choice_);
  }
  ~SimPair() override {
    for (const sim::Violation& violation : network_.monitor().violations()) {
      ADD_FAILURE() << "law A" << violation.law << ": " << violation.text << " at " << violation.time;
    }
  }

  Fabric& client() override { return *client_; }
  Fabric& server() override { return *server_; }
  PathAddress listen_address() override { return {"n1.p0", ""}; }
  PathAddress server_address() override { return {"", "n1.p0"}; }
  PathAddress unused_address() override { return {"", "n1.p1"}; }
  Nanos now() override { return network_.now(); }
  bool idle() override { return network_.step(choice_); }
  bool kill_server() override {
    network_.crash(server_->node(), true, choice_);
    return true;
  }

 private:
  sim::SeededChoice choice_;
  sim::Network network_;
  std::unique_ptr<sim::SimFabric> client_, server_;
};

// Rates of faults that are difficult to handle but never break a connection.
inline sim::Rates awkward() {
  sim::Rates rates;
  rates.source_read_early = rates.torn_write = rates.rnr_placement = 500'000;
  rates.ghost_delay = rates.slow_drain = rates.late_placement = 500'000;
  rates.request_late = rates.reply_late = 100'000;
  return rates;
}

}  // namespace rtrs::conformance
