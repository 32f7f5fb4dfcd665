// A simulated network of byte streams, as TCP provides them. The TCP fabric on top is the production code
// (core/tcp, core/iwarp); simulated pipes replace its sockets.
//
// A stream keeps its bytes in order and loses none while it exists. Everything else is drawn: how much a
// socket accepts, how much of that one step delivers, how much one receive call returns, the buffer sizes,
// and when traffic resumes after an outage. An outage longer than the retry budget, a reset, or a crash ends
// a stream; bytes in flight are lost. With CRC enabled, bytes may be changed in transit.
//
// Addresses and links are those of Network (sim/net/queue_pairs/sim_fabric.hpp). A QpId is one end of a
// stream, and also its socket number.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/tcp/tcp_options.hpp"
#include "core/tcp/tcp_transport.hpp"
#include "sim/net/streams/byte_queue.hpp"
#include "sim/net/streams/engine_net.hpp"
#include "sim/net/streams/fpdu_walk.hpp"

namespace rtrs::sim {

class PipeFabric;

enum class PipeEvents : std::uint8_t { wake, syn, established, deliver, reset, budget, unstick };

struct PipeEnd : EngineEnd {
  enum class State : std::uint8_t { connecting, open, dead };
  State state = State::connecting;
  bool closed = false;    // closed by its process; the rest of `out` is still delivered
  bool shut = false;      // the outgoing stream ends after `out`
  bool finished = false;  // the incoming stream ends after `in`
  bool keyed = false;     // belongs to a fabric connection
  bool accepted = false;  // server: taken from its listener's queue
  bool deliver_scheduled = false;
  bool corrupted = false;  // some bytes that this end sent were changed in transit
  int error = 0;
  std::uint16_t service = 0;
  std::uint32_t attempts = 0;  // transmissions of the connect request
  std::size_t capacity = 0;    // send buffer in bytes: `out` and unacknowledged bytes
  std::size_t window = 0;      // maximum size of `in`, bytes
  std::size_t unacknowledged = 0;
  std::uint64_t offset = 0;  // bytes of this end that were delivered
  FpduWalk walk;             // finds the frames in the delivered bytes
  Nanos delivered = 0;       // time of the last delivery
  ByteQueue out, in;
  Nanos since = kNever;          // time when accept() or outcome() reported the connection
  unsigned late_polls = 0;       // process polls since a deadline of this end was missed
  Nanos starved_since = kNever;  // time since which received bytes wait for a posted receive
  Nanos owed_since = kNever;     // time since which the socket has accepted less than offered
  std::uint64_t taken = 0;       // bytes that the socket has accepted
  std::uint64_t owed = 0;        // value of `taken` once all bytes offered at `owed_since` are accepted
  Nanos trickle = 0;             // interval between two delivered bytes; 0: no limit
  Nanos pending_since = 0;       // time since which `out` begins with the same byte
  tcp::Watched* watched = nullptr;
  std::uint32_t interest = 0;
};

struct PipeListener {
  std::uint32_t port = kNone;  // kNone: all ports
  std::uint16_t service = 0;
  std::vector<QpId> waiting;
  tcp::Watched* watched = nullptr;
  std::uint32_t interest = 0;
};

struct PipeNode : NetNode {
  PipeFabric* fabric = nullptr;  // fabric of the running process; nullptr if there is none
  std::vector<PipeListener> listeners;
  std::vector<QpId> ends;  // all ends of the node that were open at the last check, in ascending order
  std::vector<QpId> watched;
  Nanos timer = kNever;
  bool signalled = false;
  // Result of PipeNetwork::has_ready_socket(), and the number of changes when it was found.
  mutable bool ready_socket = false;
  mutable std::uint64_t ready_socket_at = 0;
};

class PipeNetwork final : public EngineNet<PipeNode, PipeEnd, PipeEvents> {
 public:
  // `seed` determines the keys of the fabrics.
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

  // From now on, peers may write under revoked keys and send without a posted receive; both end the
  // connection.
  void allow_violations() noexcept { allows_violations_ = true; }
  bool trickle(QpId id, Nanos apart) noexcept override {
    ends_[id].trickle = apart;
    return true;
  }
  std::size_t open_sockets() const noexcept;
  // True if bytes to or from this end were changed in transit.
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

  // Defined in pipe_network.cpp.
  void act(const Event&, ChoiceSource&) override;
  void check_sleepers();
  bool sleeps(NodeId) const noexcept override;
  bool is_joined(const End& end) const noexcept override {
    return end.state == End::State::open && !end.closed;
  }
  void taken_out(NodeId, std::uint32_t port, ChoiceSource&) override;
  void bind(NodeId, QpId, ConKey);

  // Defined in pipe_streams.cpp.
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
  // Notifies an end that its peer no longer exists.
  void send_reset(QpId to, ChoiceSource&);
  static void end_cleanly(End&) noexcept;
  void fail(QpId, int error);
  void close_end(QpId, ChoiceSource&);
  std::uint32_t readiness(const End&) const noexcept;
  bool has_ready_socket(const Node&) const noexcept;
  bool is_readable(const Node&) const noexcept;
  // Call before an end or its posted receives change. Invalidates the cached results about the ends, which
  // save time because most polls change nothing.
  void changes() noexcept { ++changes_; }

  tcp::TcpOptions tcp_;
  std::uint64_t seed_;
  std::uint64_t changes_ = 1;
  bool allows_violations_ = false;
};

}  // namespace rtrs::sim
