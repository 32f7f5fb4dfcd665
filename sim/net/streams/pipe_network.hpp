// A simulated network of streams of octets, as TCP's, for the TCP fabric: what ships is core/tcp and
// core/iwarp, and below them are pipes instead of sockets.
//
// A stream keeps the order of its octets and loses none while it lives. Everything else is drawn: how much a
// socket takes, how much of it one step delivers, how much one receive call gives, what the buffers hold,
// when it goes on after an outage. An outage longer than the retry budget, a reset, or a crash ends a stream;
// what was under way is lost. With CRC on, octets may be changed on the way.
//
// Addresses and links are those of the other network (sim/net/queue_pairs/sim_fabric.hpp). A QpId is one end
// of a stream, and its number as a socket.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tcp/tcp_options.hpp"
#include "core/tcp/tcp_transport.hpp"
#include "sim/net/streams/engine_net.hpp"
#include "sim/net/streams/fpdu_walk.hpp"
#include "sim/net/streams/octet_queue.hpp"

namespace rtrs::sim {

class PipeFabric;

enum class PipeEvents : std::uint8_t { wake, syn, established, deliver, reset, budget, unstick };

struct PipeEnd : EngineEnd {
  enum class State : std::uint8_t { connecting, open, dead };
  State state = State::connecting;
  bool closed = false;    // by its process: the rest of `out` is still delivered
  bool shut = false;      // nothing comes behind `out`
  bool finished = false;  // the peer's stream ends behind `in`
  bool keyed = false;     // belongs to a connection of the fabric
  bool accepted = false;  // a server's: taken from the queue of its listener
  bool deliver_scheduled = false;
  bool corrupted = false;  // some of what it sent was changed on the way
  int error = 0;
  std::uint16_t service = 0;
  std::uint32_t attempts = 0;  // of a connect request
  std::size_t capacity = 0;    // of what it sends: `out`, and what nobody acknowledged
  std::size_t window = 0;      // of `in`
  std::size_t unacknowledged = 0;
  std::uint64_t offset = 0;  // octets delivered of what it sent
  FpduWalk walk;             // over them
  Nanos delivered = 0;       // the last of them
  OctetQueue out, in;
  Nanos since = kNever;          // accepted, or seen to be connected
  unsigned late_polls = 0;       // of its process, since a deadline of it was over
  Nanos starved_since = kNever;  // something waits for a receive
  Nanos owed_since = kNever;     // since then the socket takes less than the process offers
  std::uint64_t taken = 0;       // bytes that the process has sent
  std::uint64_t owed = 0;        // value of `taken` when all that was offered then is sent
  Nanos trickle = 0;             // time between two bytes on the way to the peer; 0: no limit
  Nanos pending_since = 0;       // when the oldest byte of `out` became the oldest
  tcp::Watched* watched = nullptr;
  std::uint32_t interest = 0;
};

struct PipeListener {
  std::uint32_t port = kNone;  // kNone: any
  std::uint16_t service = 0;
  std::vector<QpId> waiting;
  tcp::Watched* watched = nullptr;
  std::uint32_t interest = 0;
};

struct PipeNode : NetNode {
  PipeFabric* fabric = nullptr;  // of the process that runs
  std::vector<PipeListener> listeners;
  std::vector<QpId> watched;
  Nanos timer = kNever;
  bool signalled = false;
};

class PipeNetwork final : public EngineNet<PipeNode, PipeEnd, PipeEvents> {
 public:
  // `seed`: of the keys of the fabrics.
  PipeNetwork(const NetworkConfig&, tcp::TcpOptions, std::uint64_t seed);
  ~PipeNetwork() override;
  PipeNetwork(const PipeNetwork&) = delete;
  PipeNetwork& operator=(const PipeNetwork&) = delete;

  NodeId add_node() override;
  using Net::open;
  std::unique_ptr<Fabric> open(NodeId, ChoiceSource&, std::size_t batch) override;
  Nanos next_time() const noexcept override;
  void run_until(Nanos time, ChoiceSource&) override;
  QpInfo qp_info(QpId) const noexcept override;
  bool hang(QpId, ChoiceSource&) override;
  bool all_delivered(QpId id) const noexcept override { return !laws_.is_awaited(id); }
  void break_qp(QpId, ChoiceSource&) override;
  void crash(NodeId, bool orderly, ChoiceSource&) override;

  // From now on peers may write under dead keys and send what finds no receive, which ends the connection.
  void expect_lies() noexcept { lies_ = true; }
  // Delivers what this end sends one byte at a time, `apart`. 0: without that limit.
  void trickle(QpId id, Nanos apart) noexcept { ends_[id].trickle = apart; }
  std::size_t open_sockets() const noexcept;
  // Octets that come to this end, or leave it, were changed.
  bool was_changed(QpId id) const noexcept {
    return ends_[id].corrupted || (ends_[id].peer != kNone && ends_[ends_[id].peer].corrupted);
  }

 private:
  friend class PipeFabric;
  friend class PipeTransport;
  using SocketId = tcp::SocketId;

  using Node = PipeNode;
  using End = PipeEnd;
  using Listener = PipeListener;
  static constexpr SocketId kFirstListener = 1 << 30;

  // pipe_network.cpp
  void act(const Event&, ChoiceSource&) override;
  void check_sleepers();
  bool sleeps(NodeId) const noexcept override;
  bool is_joined(const End& end) const noexcept override {
    return end.state == End::State::open && !end.closed;
  }
  void taken_out(NodeId, std::uint32_t port, ChoiceSource&) override;
  void bind(NodeId, QpId, ConKey);

  // pipe_streams.cpp
  QpId make_end(NodeId, LinkId, Way, ChoiceSource&);
  void begin(QpId, ChoiceSource&);
  void on_syn(QpId, ChoiceSource&);
  void on_established(QpId, ChoiceSource&);
  void on_deliver(QpId, ChoiceSource&);
  void on_budget(QpId, ChoiceSource&);
  void on_reset(QpId);
  void schedule_delivery(QpId, Nanos not_before, ChoiceSource&);
  void go_on(QpId, ChoiceSource&) override;
  void deliver(QpId, std::size_t count, ChoiceSource&);
  void corrupt(End&, std::span<std::byte>, ChoiceSource&);
  std::size_t some_of(std::size_t count, ChoiceSource&);
  // The peer learns that there is nobody any more.
  void send_reset(QpId to, ChoiceSource&);
  static void end_well(End&) noexcept;
  void fail(QpId, int error);
  void close_end(QpId, ChoiceSource&);
  std::uint32_t readiness(const End&) const noexcept;
  bool is_readable(const Node&) const noexcept;

  tcp::TcpOptions tcp_;
  std::uint64_t seed_;
  bool lies_ = false;
};

}  // namespace rtrs::sim
