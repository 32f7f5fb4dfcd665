// The verbs backend that ships, on adapters in memory (sim/net/adapters), as one more network of the
// simulator: each process of a node is a backends/verbs of its own, on adapters of a make that is drawn for
// the node. What the adapters do and when is led from here, in virtual time.
//
// Work requests of a queue pair arrive in their order, each after the latency of its link; the word of it
// goes back. Messages of the connection manager get lost or come late, and are repeated. An outage longer
// than the retry budget ends a queue pair. An adapter that is unplugged dies as a device does, and comes back
// as a new one. Memory, keys and queues are short when they are asked for.
//
// Addresses and links are those of the other networks (sim/net/queue_pairs/sim_fabric.hpp). A QpId is one end
// of a connection. There is one such network at a time in a process, for there is one set of the functions of
// libibverbs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/verbs/verbs.hpp"
#include "sim/net/adapters/conductor.hpp"
#include "sim/net/streams/engine_net.hpp"

namespace rtrs::mock_net {

using namespace sim;  // its network is another one of the same kind

class MockFabric;

enum class MockEvents : std::uint8_t { wake, carry, word, budget, unstick, message, ask_again };

// Of a connection: a client's from connect() on, a server's from accept() on.
struct MockEnd : EngineEnd {
  std::uint32_t identifier = 0;
  std::uint32_t queue_pair = 0;
  bool over = false;  // disconnected, or its process is gone
  bool failed = false;
  bool connected = false;
  std::deque<Nanos> due;  // of each work request that is under way
  bool carry_scheduled = false, word_scheduled = false;
};

struct MockNode : NetNode {
  unsigned make = 0;
  MockFabric* fabric = nullptr;       // of the process that runs
  std::vector<std::size_t> adapters;  // by port
};

class MockNet final : public EngineNet<MockNode, MockEnd, MockEvents>, private mock_hca::Conductor {
 public:
  // `seed`: of the makes of the adapters.
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

  static constexpr std::uint32_t kPorts = 4;  // that a node has from the beginning
  // An identifier that says the same again until there is an answer.
  struct Asking {
    std::uint32_t identifier = 0;
    Message::Kind kind{};
    std::uint32_t attempts = 1;
  };

  // The conductor: called by the adapters.
  std::uint64_t time() const override { return now_; }
  bool falls_short() override;
  using EngineNet::falls_short;
  void work_waits(std::uint32_t queue_pair, std::size_t waiting) override;
  unsigned still_arrives(std::uint32_t queue_pair, unsigned waiting) override;
  void sent(const Message&) override;
  int resolve() override;
  void made(std::uint32_t identifier) override;
  void joined(std::uint32_t identifier, std::uint32_t queue_pair) override;

  // mock_net.cpp
  void act(const Event&, ChoiceSource&) override;
  void link_made(LinkId) override;
  bool sleeps(NodeId) const noexcept override;
  bool is_joined(const End& end) const noexcept override { return !end.over && !end.failed; }
  void taken_out(NodeId, std::uint32_t port, ChoiceSource&) override;
  void put_back(NodeId, std::uint32_t port) override;
  void look_at_problems();
  std::size_t adapter_of(NodeId, std::uint32_t port);
  // `start`: of the processes of the node, from 1.
  verbs::VerbsOptions options_of_start(NodeId, std::uint32_t start) const;
  void enter(NodeId node) { mock_hca::on_host(node); }

  // mock_work.cpp
  QpId make_end(NodeId, ConKey, LinkId, Way);
  void on_carry(QpId, ChoiceSource&);
  void on_word(QpId, ChoiceSource&);
  void on_budget(QpId, ChoiceSource&);
  void go_on(QpId, ChoiceSource&) override;
  bool is_open(const End&) const;
  void schedule_carry(QpId, Nanos not_before);

  // mock_messages.cpp
  void on_message(std::uint32_t index);
  void on_ask_again(std::uint32_t index);
  bool asks_already(const Message&) const noexcept;
  LinkId link_between(std::size_t a, std::size_t b, Way& way) const noexcept;
  bool is_swallowed(const Message&) const noexcept;

  std::uint64_t seed_;
  ChoiceSource* choice_ = nullptr;                          // the last one given
  std::vector<std::pair<NodeId, std::uint32_t>> adapters_;  // whose they are
  std::map<std::uint32_t, QpId> by_identifier_, by_queue_pair_;
  std::map<std::uint32_t, Message> messages_;
  std::map<std::uint32_t, Asking> asking_;
  std::uint32_t next_message_ = 0, next_asking_ = 0;
  QpId connecting_ = kNone;  // the end that the next identifier is for
  NodeId asks_ = kNone;      // of which node what is made may be short; kNone: nothing is
  bool refuses_ = false;     // what the next accept() needs cannot be had
};

}  // namespace rtrs::mock_net
