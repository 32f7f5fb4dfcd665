// The verbs backend that ships, on adapters in memory (conformance/mock_hca), as one more network of the
// simulator: each process of a node is a backends/verbs of its own, on adapters of a make that is drawn for
// the node. What the adapters do and when is led from here, in virtual time.
//
// Work requests of a queue pair arrive in their order, each after the latency of its link; the word of it
// goes back. Messages of the connection manager get lost or come late, and are repeated. An outage longer
// than the retry budget ends a queue pair. An adapter that is unplugged dies as a device does, and comes back
// as a new one. Memory, keys and queues are short when they are asked for.
//
// Addresses and links are those of the other networks (sim/network/sim_fabric.hpp). A QpId is one end of a
// connection. There is one such network at a time in a process, for there is one set of the functions of
// libibverbs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "conformance/mock_hca/conductor.hpp"
#include "sim/network/net.hpp"
#include "sim/pipes/pipe_laws.hpp"

namespace rtrs::mock_net {

using namespace sim;  // its network is another one of the same kind

class MockFabric;

class MockNet final : public Net, private mock_hca::Conductor {
 public:
  // `seed`: of the makes of the adapters.
  MockNet(const NetworkConfig&, std::uint64_t seed);
  ~MockNet() override;
  MockNet(const MockNet&) = delete;
  MockNet& operator=(const MockNet&) = delete;

  NodeId add_node() override;
  using Net::open;
  std::unique_ptr<Fabric> open(NodeId, ChoiceSource&, std::size_t batch) override;
  Nanos now() const noexcept override { return now_; }
  Nanos next_time() const noexcept override;
  bool step(ChoiceSource&);
  void run_until(Nanos time, ChoiceSource&) override;
  bool has_events(NodeId) const noexcept override;
  // What completion queues hold is not known.
  std::size_t event_count(NodeId) const noexcept override { return 0; }
  bool holds_message(NodeId, std::size_t) const noexcept override { return false; }

  Rates& rates() noexcept override { return rates_; }
  const NetworkConfig& config() const noexcept override { return config_; }
  LinkId link(NodeId client, std::uint32_t client_port, NodeId server, std::uint32_t server_port) override;
  std::size_t link_count() const noexcept override { return links_.size(); }
  LinkInfo link_info(LinkId id) const noexcept override { return links_[id].info; }
  void cut(LinkId, Way) override;
  void heal(LinkId, Way, ChoiceSource&) override;
  void heal_all(ChoiceSource&) override;
  void kill(LinkId, Way) override;
  void set_latency(LinkId, Nanos latency, Nanos jitter) override;
  void starve(LinkId, Way, Nanos until) override;
  std::size_t qp_count() const noexcept override { return ends_.size(); }
  QpInfo qp_info(QpId) const noexcept override;
  void swallow(QpId, bool on, ChoiceSource&) override;
  bool hang(QpId, ChoiceSource&) override;
  bool withholds(QpId id) const noexcept override { return laws_.withholds(id); }
  std::uint32_t withheld_messages(QpId id) const noexcept override { return laws_.withheld_messages(id); }
  bool all_delivered(QpId id) const noexcept override;
  const std::vector<QpId>& hung() noexcept override;
  void unplug(NodeId, std::uint32_t port, ChoiceSource&) override;
  void plug(NodeId, std::uint32_t port, ChoiceSource&) override;
  bool is_unplugged(NodeId node, std::uint32_t port) const noexcept override {
    return port < nodes_[node].ports.size() && nodes_[node].ports[port].unplugged;
  }
  void plan_shortage(NodeId, std::uint32_t skip, std::uint32_t count) override;
  void break_qp(QpId, ChoiceSource&) override;
  void crash(NodeId, bool orderly, ChoiceSource&) override;
  void restart(NodeId) override;
  bool is_up(NodeId node) const noexcept override { return nodes_[node].up; }
  std::uint32_t starts(NodeId node) const noexcept { return nodes_[node].starts; }
  QpId find_qp(NodeId, ConKey) const noexcept override;

  const Capabilities& capabilities() const noexcept override { return config_.capabilities; }
  std::uint64_t hash() const noexcept override { return hash_; }
  const std::vector<Violation>& violations() const noexcept override { return laws_.violations(); }
  const NetworkStats& stats() const noexcept override { return stats_; }

 private:
  friend class MockFabric;
  using Message = mock_hca::Message;

  struct Event {
    enum class Kind : std::uint8_t { wake, carry, word, budget, unstick, message, ask_again };
    Nanos time;
    std::uint64_t serial;  // order among equal times
    Kind kind;
    std::uint32_t which;
  };
  // Of a connection: a client's from connect() on, a server's from accept() on.
  struct End {
    NodeId node = kNone;
    QpId peer = kNone;
    LinkId link = kNone;
    Way way = Way::to_server;  // of what it sends
    ConKey key{};
    std::uint32_t identifier = 0;
    std::uint32_t queue_pair = 0;
    bool over = false;  // disconnected, or its process is gone
    bool failed = false;
    bool connected = false;
    bool swallowed = false;
    bool hung = false;
    std::deque<Nanos> due;  // of each work request that is under way
    bool carry_scheduled = false, word_scheduled = false, budget_scheduled = false;
    Nanos stuck_since = kNever;
    Nanos budget = 0;
  };
  struct Port {
    std::size_t adapter = 0;
    bool unplugged = false;
  };
  static constexpr std::uint32_t kPorts = 4;  // that a node has from the beginning
  struct Node {
    bool up = true;
    bool silent = false;
    std::uint32_t starts = 1;
    unsigned make = 0;
    MockFabric* fabric = nullptr;  // of the process that runs
    std::vector<Port> ports;
    std::unordered_map<std::uint64_t, QpId> by_key;  // looked up, never iterated
    std::uint32_t shortage_after = 0, shortage_count = 0;
    unsigned short_posts = 0;
  };
  struct Link {
    LinkInfo info;
    Nanos latency = 0, jitter = 0;
    Nanos starved[2] = {0, 0};
    unsigned unplugged = 0;
  };
  // An identifier that says the same again until there is an answer.
  struct Asking {
    std::uint32_t identifier = 0;
    Message::Kind kind{};
    std::uint32_t attempts = 1;
  };

  static std::uint64_t packed(ConKey key) noexcept {
    return std::uint64_t{key.epoch} << 32 | std::uint64_t{key.path} << 16 | key.con;
  }

  // The conductor: called by the adapters.
  std::uint64_t time() const override { return now_; }
  bool falls_short() override;
  void work_waits(std::uint32_t queue_pair, std::size_t waiting) override;
  unsigned still_arrives(std::uint32_t queue_pair, unsigned waiting) override;
  void sent(const Message&) override;
  int resolve() override;
  void made(std::uint32_t identifier) override;
  void joined(std::uint32_t identifier, std::uint32_t queue_pair) override;

  // mock_net.cpp
  void schedule(Nanos time, Event::Kind, std::uint32_t which);
  void happened(unsigned what, std::uint64_t a, std::uint64_t b, std::uint64_t c = 0);
  bool is_cut(LinkId link, Way way) const noexcept {
    return links_[link].info.cut[static_cast<unsigned>(way)] || links_[link].unplugged != 0;
  }
  void link_changed(LinkId, ChoiceSource&);
  bool draws_shortage(NodeId);
  std::size_t takes(NodeId, std::size_t offered, ChoiceSource&);
  void look_at_problems();
  Port& port_of(NodeId, std::uint32_t port);
  bool sleeps(NodeId) const noexcept;
  void enter(NodeId node) { mock_hca::on_host(node); }

  // mock_work.cpp
  QpId make_end(NodeId, ConKey, LinkId, Way);
  void on_carry(QpId, ChoiceSource&);
  void on_word(QpId, ChoiceSource&);
  void on_budget(QpId, ChoiceSource&);
  void go_on(QpId, ChoiceSource&);
  bool is_stopped(const End&) const noexcept;
  // Nothing that the peer says.
  bool hears_nothing(const End&) const noexcept;
  bool is_open(const End&) const;
  void schedule_carry(QpId, Nanos not_before);
  void stuck(QpId, ChoiceSource&);
  Nanos latency_of(LinkId, ChoiceSource&);

  // mock_messages.cpp
  void on_message(std::uint32_t index);
  void on_ask_again(std::uint32_t index);
  bool asks_already(const Message&) const noexcept;
  LinkId link_between(std::size_t a, std::size_t b, Way& way) const noexcept;
  bool is_swallowed(const Message&) const noexcept;

  NetworkConfig config_;
  std::uint64_t seed_;
  Rates rates_;
  ChoiceSource* choice_ = nullptr;  // the last one given
  Nanos now_ = 0;
  std::uint64_t next_serial_ = 0;
  std::uint64_t hash_ = 0x6d6f636bULL;
  std::vector<Event> heap_;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<End> ends_;
  std::vector<std::pair<NodeId, std::uint32_t>> adapters_;  // whose they are
  std::map<std::uint32_t, QpId> by_identifier_, by_queue_pair_;
  std::map<std::uint32_t, Message> messages_;
  std::map<std::uint32_t, Asking> asking_;
  std::uint32_t next_message_ = 0, next_asking_ = 0;
  QpId connecting_ = kNone;  // the end that the next identifier is for
  NodeId asks_ = kNone;      // of which node what is made may be short; kNone: nothing is
  bool refuses_ = false;     // what the next accept() needs cannot be had
  std::vector<QpId> hung_;
  NetworkStats stats_;
  PipeLaws laws_;
};

}  // namespace rtrs::mock_net
