// Runs the fabric contract on the TCP fabric over simulated streams, with data in one piece or split
// anywhere.
#include <memory>

#include "conformance/contract/contract.hpp"
#include "sim/net/streams/pipe_network.hpp"

namespace rtrs::conformance {
namespace {

class StreamPair final : public FabricPair {
 public:
  StreamPair(std::unique_ptr<sim::ChoiceSource> choice, bool crc) : choice_(std::move(choice)) {
    sim::NetworkConfig config;
    tcp::TcpOptions options;
    options.crc = crc;
    network_ = std::make_unique<sim::PipeNetwork>(config, options, 20261125);
    network_->allow_violations();
    const sim::NodeId client = network_->add_node();
    server_node_ = network_->add_node();
    client_ = network_->open(client, *choice_);
    server_ = network_->open(server_node_, *choice_);
  }
  ~StreamPair() override {
    for (const sim::Violation& violation : network_->violations())
      ADD_FAILURE() << "law A" << violation.law << ": " << violation.text << " at " << violation.time;
  }

  Fabric& client() override { return *client_; }
  Fabric& server() override { return *server_; }
  PathAddress listen_address() override { return {"n1.p0", ""}; }
  PathAddress server_address() override { return {"", "n1.p0"}; }
  PathAddress unused_address() override { return {"", "n1.p1"}; }
  Nanos now() override { return network_->now(); }
  bool idle() override {
    if (network_->has_events(0) || network_->has_events(server_node_)) return true;
    return network_->next_time() != kNever && network_->step(*choice_);
  }
  bool kill_server() override {
    network_->crash(server_node_, true, *choice_);
    return true;
  }

 private:
  std::unique_ptr<sim::ChoiceSource> choice_;
  std::unique_ptr<sim::PipeNetwork> network_;
  sim::NodeId server_node_ = 0;
  std::unique_ptr<Fabric> client_, server_;
};

std::unique_ptr<FabricPair> make_whole() {
  return std::make_unique<StreamPair>(std::make_unique<sim::ZeroChoice>(), false);
}
std::unique_ptr<FabricPair> make_cut() {
  return std::make_unique<StreamPair>(std::make_unique<sim::SeededChoice>(20261125), false);
}
std::unique_ptr<FabricPair> make_cut_crc() {
  return std::make_unique<StreamPair>(std::make_unique<sim::SeededChoice>(20261126), true);
}

INSTANTIATE_TEST_SUITE_P(Streams, FabricContract,
                         ::testing::Values(FabricCase{"whole", make_whole}, FabricCase{"cut", make_cut},
                                           FabricCase{"cut_crc", make_cut_crc}),
                         case_name);

}  // namespace
}  // namespace rtrs::conformance
