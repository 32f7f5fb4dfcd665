// The production verbs backend on in-memory adapters (sim/net/adapters), as another network of the simulator.
// Each process of a node has its own instance of backends/verbs, on adapters whose profile is drawn for the
// node. This class drives the adapters in virtual time.
//
// Work requests of a queue pair arrive in order, each after the latency of its link; their acknowledgements
// return the same way. Connection manager messages may be lost or delayed, and are repeated. An outage longer
// than the retry budget breaks a queue pair. An unplugged adapter reports the events of a removed device, and
// returns as a new device. Allocations of memory, keys and queues may fail.
//
// Addresses and links are those of the other networks (sim/net/queue_pairs/sim_fabric.hpp). A QpId is one end
// of a connection. A process can have only one MockNet at a time, because it has one set of the libibverbs
// functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/verbs/verbs.hpp"
#include "sim/net/adapters/conductor.hpp"
#include "sim/net/streams/engine_net.hpp"

namespace rtrs::mock_net {

using namespace sim;  // MockNet implements sim::Net

class MockFabric;

enum class MockEvents : std::uint8_t { wake, carry, word, budget, unstick, message, ask_again };

// One end of a connection. A client's end exists from connect(), a server's end from accept().
struct MockEnd : EngineEnd {
  std::uint32_t identifier = 0;
  std::uint32_t queue_pair = 0;
  bool over = false;  // disconnected, or its process is dead
  bool failed = false;
  bool connected = false;
  std::deque<Nanos> due;  // time of arrival of each work request in flight
  bool carry_scheduled = false, status_scheduled = false;
};

struct MockNode : NetNode {
  unsigned make = 0;
  MockFabric* fabric = nullptr;       // fabric of the running process; nullptr if there is none
  std::vector<std::size_t> adapters;  // indexed by port
};

class MockNet final : public EngineNet<MockNode, MockEnd, MockEvents>, private mock_hca::Conductor {
 public:
  // `seed` determines the profiles of the adapters.
  MockNet(const NetworkConfig&, std::uint64_t seed);
  ~MockNet() override;
  MockNet(const MockNet&) = delete;
  MockNet& operator=(const MockNet&) = delete;

  NodeId add_node() override;
  using Net::open;
  std::unique_ptr<Fabric> open(NodeId, ChoiceSource&, std::size_t batch) override;
  std::string describe() const override;
  Nanos next_time() const noexcept override;
  void run_until(Nanos time, ChoiceSource&) override;
  QpInfo qp_info(QpId) const noexcept override;
  bool hang(QpId, ChoiceSource&) override;
  bool all_delivered(QpId id) const noexcept override;
  void unplug(NodeId, std::uint32_t port, ChoiceSource&) override;
  void plug(NodeId, std::uint32_t port, ChoiceSource&) override;
  void break_qp(QpId, ChoiceSource&) override;
  void crash(NodeId, bool orderly, ChoiceSource&) override;
  void restart(NodeId) override;

 private:
  friend class MockFabric;
  using Message = mock_hca::Message;
  using Node = MockNode;
  using End = MockEnd;

  static constexpr std::uint64_t kNameStep = 4096;  // step between names, as large as a page
  static constexpr std::uint32_t kPorts = 4;        // ports that a node has initially
  // Connection identifier whose message is sent again until the peer answers.
  struct Asking {
    std::uint32_t identifier = 0;
    Message::Kind kind{};
    std::uint32_t attempts = 1;
  };

  // Functions of the conductor, called by the adapters.
  std::uint64_t time() const override { return now_; }
  bool allocation_fails() override;
  using EngineNet::allocation_fails;
  void work_waits(std::uint32_t queue_pair, std::size_t waiting) override;
  unsigned still_arrives(std::uint32_t queue_pair, unsigned waiting) override;
  void sent(const Message&) override;
  int resolve() override;
  void made(std::uint32_t identifier) override;
  void joined(std::uint32_t identifier, std::uint32_t queue_pair) override;

  // Defined in mock_net.cpp.
  void act(const Event&, ChoiceSource&) override;
  void link_made(LinkId) override;
  bool sleeps(NodeId) const noexcept override;
  bool is_joined(const End& end) const noexcept override { return !end.over && !end.failed; }
  void taken_out(NodeId, std::uint32_t port, ChoiceSource&) override;
  void put_back(NodeId, std::uint32_t port) override;
  void collect_problems();
  std::size_t adapter_of(NodeId, std::uint32_t port);
  // `start`: number of the process on its node, counted from 1.
  verbs::VerbsOptions options_of_start(NodeId, std::uint32_t start) const;
  // Peers know memory by addresses that the network assigns, because heap addresses would make the messages
  // of one seed differ from run to run.
  std::uint64_t name_memory(std::span<std::byte> memory);
  // Returns an unknown address unchanged.
  std::uint64_t address_of_name(std::uint64_t name) const noexcept;
  void enter(NodeId node) { mock_hca::on_host(node); }

  // Defined in mock_work.cpp.
  QpId make_end(NodeId, ConKey, LinkId, Way);
  void on_carry(QpId, ChoiceSource&);
  void on_peer_status(QpId, ChoiceSource&);
  void on_budget(QpId, ChoiceSource&);
  void go_on(QpId, ChoiceSource&) override;
  bool is_open(const End&) const;
  void schedule_carry(QpId, Nanos not_before);

  // Defined in mock_messages.cpp.
  void on_message(std::uint32_t index);
  void on_ask_again(std::uint32_t index);
  bool asks_already(const Message&) const noexcept;
  LinkId link_between(std::size_t a, std::size_t b, Way& way) const noexcept;
  bool is_swallowed(const Message&) const noexcept;

  std::uint64_t seed_;
  ChoiceSource* choice_ = nullptr;                          // choice source of the last call
  std::vector<std::pair<NodeId, std::uint32_t>> adapters_;  // node and port of each adapter
  std::map<std::uint32_t, QpId> by_identifier_, by_queue_pair_;
  std::map<std::uint32_t, Message> messages_;
  std::map<std::uint64_t, std::span<std::byte>> named_memory_;
  std::uint64_t next_name_ = std::uint64_t{1} << 52;
  std::map<std::uint32_t, Asking> asking_;
  std::uint32_t next_message_ = 0, next_asking_ = 0;
  QpId connecting_ = kNone;  // end whose connect() is in progress
  NodeId asks_ = kNone;      // node whose allocations may fail; kNone: none
  bool refuses_ = false;     // resource requests of the current accept() fail
};

}  // namespace rtrs::mock_net
