// A simulated network of streams of octets, as TCP's, for the TCP fabric: what ships is core/tcp and
// core/iwarp, and below them are pipes instead of sockets.
//
// A stream keeps the order of its octets and loses none while it lives. Everything else is drawn: how much a
// socket takes, how much of it one step delivers, how much one receive call gives, what the buffers hold,
// when it goes on after an outage. An outage longer than the retry budget, a reset, or a crash ends a stream;
// what was under way is lost. With CRC on, octets may be changed on the way.
//
// Addresses and links are those of the other network (sim/network/sim_fabric.hpp). A QpId is one end of a
// stream, and its number as a socket.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/tcp/tcp_options.hpp"
#include "core/tcp/tcp_transport.hpp"
#include "sim/network/net.hpp"
#include "sim/pipes/fpdu_walk.hpp"
#include "sim/pipes/octet_queue.hpp"
#include "sim/pipes/pipe_laws.hpp"

namespace rtrs::sim {

class PipeFabric;

class PipeNetwork final : public Net {
 public:
  // `seed`: of the keys of the fabrics.
  PipeNetwork(const NetworkConfig&, tcp::TcpOptions, std::uint64_t seed);
  ~PipeNetwork() override;
  PipeNetwork(const PipeNetwork&) = delete;
  PipeNetwork& operator=(const PipeNetwork&) = delete;

  NodeId add_node() override;
  std::size_t node_count() const noexcept { return nodes_.size(); }
  using Net::open;
  std::unique_ptr<Fabric> open(NodeId, ChoiceSource&, std::size_t batch) override;
  Nanos now() const noexcept override { return now_; }
  Nanos next_time() const noexcept override;
  bool step(ChoiceSource&);
  void run_until(Nanos time, ChoiceSource&) override;
  bool has_events(NodeId) const noexcept override;
  // Whether what a socket holds is whole is not known; see law A22.
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
  bool all_delivered(QpId id) const noexcept override { return !laws_.is_awaited(id); }
  const std::vector<QpId>& hung() noexcept override;
  void unplug(NodeId, std::uint32_t port, ChoiceSource&) override;
  void plug(NodeId, std::uint32_t port, ChoiceSource&) override;
  bool is_unplugged(NodeId, std::uint32_t port) const noexcept override;
  void plan_shortage(NodeId, std::uint32_t skip, std::uint32_t count) override;
  void break_qp(QpId, ChoiceSource&) override;
  void crash(NodeId, bool orderly, ChoiceSource&) override;
  void restart(NodeId) override;
  bool is_up(NodeId node) const noexcept override { return nodes_[node].up; }
  std::uint32_t starts(NodeId node) const noexcept { return nodes_[node].starts; }
  QpId find_qp(NodeId, ConKey) const noexcept override;

  // From now on peers may write under dead keys and send what finds no receive, which ends the connection.
  void expect_lies() noexcept { lies_ = true; }
  std::size_t open_sockets() const noexcept;
  // Octets that come to this end, or leave it, were changed.
  bool was_changed(QpId id) const noexcept {
    return ends_[id].corrupted || (ends_[id].peer != kNone && ends_[ends_[id].peer].corrupted);
  }

  const Capabilities& capabilities() const noexcept override { return config_.capabilities; }
  std::uint64_t hash() const noexcept override { return hash_; }
  const std::vector<Violation>& violations() const noexcept override { return laws_.violations(); }
  const NetworkStats& stats() const noexcept override { return stats_; }

 private:
  friend class PipeFabric;
  friend class PipeTransport;
  using SocketId = tcp::SocketId;

  struct Event {
    enum class Kind : std::uint8_t { wake, syn, established, deliver, reset, budget, unstick };
    Nanos time;
    std::uint64_t serial;  // order among equal times
    Kind kind;
    std::uint32_t end;
  };
  struct End {
    enum class State : std::uint8_t { connecting, open, dead };
    State state = State::connecting;
    bool closed = false;    // by its process: the rest of `out` is still delivered
    bool shut = false;      // nothing comes behind `out`
    bool finished = false;  // the peer's stream ends behind `in`
    bool keyed = false;     // belongs to a connection of the fabric
    bool accepted = false;  // a server's: taken from the queue of its listener
    bool swallowed = false;
    bool hung = false;
    bool deliver_scheduled = false;
    bool budget_scheduled = false;
    bool corrupted = false;  // some of what it sent was changed on the way
    int error = 0;
    NodeId node = kNone;
    QpId peer = kNone;
    LinkId link = kNone;
    Way way = Way::to_server;  // of what it sends
    ConKey key{};
    std::uint16_t service = 0;
    std::uint32_t attempts = 0;  // of a connect request
    std::size_t capacity = 0;    // of what it sends: `out`, and what nobody acknowledged
    std::size_t window = 0;      // of `in`
    std::size_t unacknowledged = 0;
    std::uint64_t offset = 0;  // octets delivered of what it sent
    FpduWalk walk;             // over them
    Nanos delivered = 0;       // the last of them
    OctetQueue out, in;
    Nanos since = 0;  // accepted
    Nanos stuck_since = kNever;
    Nanos budget = 0;
    unsigned late_polls = 0;       // of its process, since a deadline of it was over
    Nanos starved_since = kNever;  // something waits for a receive
    Nanos full_since = kNever;     // the process wants to send, and nothing of it was taken
    tcp::Watched* watched = nullptr;
    std::uint32_t interest = 0;
  };
  struct Listener {
    std::uint32_t port = kNone;  // kNone: any
    std::uint16_t service = 0;
    std::vector<QpId> waiting;
    tcp::Watched* watched = nullptr;
    std::uint32_t interest = 0;
  };
  struct Node {
    bool up = true;
    bool silent = false;
    std::uint32_t starts = 1;
    PipeFabric* fabric = nullptr;  // of the process that runs
    std::vector<Listener> listeners;
    std::vector<QpId> watched;
    std::unordered_map<std::uint64_t, QpId> by_key;  // looked up, never iterated
    std::vector<std::uint32_t> unplugged;
    std::uint32_t shortage_after = 0, shortage_count = 0;
    unsigned short_posts = 0;
    Nanos timer = kNever;
    bool signalled = false;
  };
  struct Link {
    LinkInfo info;
    Nanos latency = 0, jitter = 0;
    Nanos starved[2] = {0, 0};
    unsigned unplugged = 0;
  };
  static constexpr SocketId kFirstListener = 1 << 30;

  static std::uint64_t packed(ConKey key) noexcept {
    return std::uint64_t{key.epoch} << 32 | std::uint64_t{key.path} << 16 | key.con;
  }

  // pipe_network.cpp
  void schedule(Nanos time, Event::Kind, std::uint32_t end);
  void happened(unsigned what, std::uint64_t a, std::uint64_t b, std::uint64_t c = 0);
  bool is_cut(LinkId link, Way way) const noexcept {
    return links_[link].info.cut[static_cast<unsigned>(way)] || links_[link].unplugged != 0;
  }
  void link_changed(LinkId, ChoiceSource&);
  bool falls_short(NodeId, ChoiceSource&);
  void check_sleepers();
  bool sleeps(NodeId) const noexcept;
  std::size_t takes(NodeId, std::size_t offered, ChoiceSource&);
  void bind(NodeId, QpId, ConKey);

  // pipe_streams.cpp
  QpId make_end(NodeId, LinkId, Way, ChoiceSource&);
  void begin(QpId, ChoiceSource&);
  void on_syn(QpId, ChoiceSource&);
  void on_established(QpId, ChoiceSource&);
  void on_deliver(QpId, ChoiceSource&);
  void on_budget(QpId, ChoiceSource&);
  void on_reset(QpId);
  // Nothing that it sends gets through now.
  bool is_stopped(const End&) const noexcept;
  // Nothing that the peer says, acknowledgements with it.
  bool hears_nothing(const End&) const noexcept;
  void schedule_delivery(QpId, Nanos not_before, ChoiceSource&);
  void stuck(QpId, ChoiceSource&);
  void go_on(QpId, ChoiceSource&);
  void deliver(QpId, std::size_t count, ChoiceSource&);
  void corrupt(End&, std::span<std::byte>, ChoiceSource&);
  std::size_t some_of(std::size_t count, ChoiceSource&);
  Nanos latency_of(const End&, ChoiceSource&);
  // The peer learns that there is nobody any more.
  void send_reset(QpId to, ChoiceSource&);
  void fail(QpId, int error);
  void close_end(QpId, ChoiceSource&);
  std::uint32_t readiness(const End&) const noexcept;
  bool is_readable(const Node&) const noexcept;

  NetworkConfig config_;
  tcp::TcpOptions tcp_;
  std::uint64_t seed_;
  Rates rates_;
  Nanos now_ = 0;
  std::uint64_t next_serial_ = 0;
  std::uint64_t hash_ = 0x7069706573ULL;
  std::vector<Event> heap_;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<End> ends_;
  std::vector<QpId> hung_;
  bool lies_ = false;
  NetworkStats stats_;
  PipeLaws laws_;
};

}  // namespace rtrs::sim
