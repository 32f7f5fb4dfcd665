// The simulated network of reliable connections: nodes with their memory, links, queue pairs, messages in
// flight and a virtual clock. A Network can be copied. With the same choices, a copy behaves exactly as the
// original. Memory that a caller registered, as opposed to allocated, is shared between the copies.
//
// Addresses: a node has ports; a link is a pair (port of the client, port of the server) and is created at
// its first use. Each direction of a link can be cut. Time advances only in step() and run_until().
//
// The laws in sim/net/basic/law_monitor.hpp say what a queue pair may do. Among the legal alternatives, each
// call draws from the ChoiceSource that it gets. The Network keeps no reference to the ChoiceSource.
//
// sim/net/basic/net.hpp describes the overridden functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/fabric/fabric.hpp"
#include "sim/choices/choice.hpp"
#include "sim/net/basic/basic_net.hpp"
#include "sim/net/basic/law_monitor.hpp"
#include "sim/net/basic/network_config.hpp"
#include "sim/net/basic/network_event.hpp"
#include "sim/net/basic/payload_pool.hpp"

namespace rtrs::sim {

// Types of the nodes, links and events of a Network.
struct NetworkParts {
  struct Event {
    enum class Kind : std::uint8_t {
      deliver,      // the next message of qp arrives
      acknowledge,  // sent work of qp is acknowledged
      budget,       // the retry budget of qp may be exhausted
      ghost,        // ghosts_[arg] arrives
      datagram,     // datagrams_[arg] arrives
      cm_retry,     // qp may repeat its connect request
      close,        // qp: report ConnectionClosed
      heal,         // heal link `qp`, direction `arg`
      broken_peer,  // the peer's refusal reaches qp
      rnr,          // the RNR budget of qp may be exhausted
    };
    Nanos time;
    Kind kind;
    std::uint32_t qp;
    std::uint32_t arg;
    std::uint64_t serial = 0;
  };
  struct Memory {
    std::vector<std::byte> owned;
    std::span<std::byte> external_bytes;
    bool external = false;
    bool used = false;
  };
  struct Key {
    std::uint32_t rkey = 0;
    RegionId region = kNoRegion;
    std::uint64_t address = 0;
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    std::uint16_t generation = 0;
    bool used = false;
    bool valid = false;
  };
  struct Listener {
    std::uint32_t port;
    std::uint16_t service;
  };
  struct Pending {  // event that poll() will report
    FabricEvent event;
    QpId qp = kNone;
    PayloadId payload = kNoPayload;
    bool arrival = false;      // arrival of a message; the next members describe it
    std::uint64_t serial = 0;  // index of the arrival on its queue pair
    WorkRequest::Op op = WorkRequest::Op::write;
    std::uint32_t imm = 0;
    std::uint32_t length = 0;
  };
  struct Node : NetNode {
    std::vector<Memory> memory;
    std::vector<Key> keys;  // indexed by RemoteKeyId
    std::vector<RemoteKeyId> free_keys;
    std::vector<Listener> listeners;
    std::vector<Pending> events;  // poll() has not reported those from `first` on
    std::size_t first = 0;
    std::vector<PayloadId> held;  // payloads of the events of the last poll()
  };
  struct Link : NetLink {
    std::vector<QpId> qps;  // queue pairs of both ends; closed ones are removed occasionally
  };
};

class Network final : private NetworkParts,
                      public BasicNet<NetworkParts::Node, NetworkParts::Link, NetworkParts::Event> {
 public:
  Network() : Network(NetworkConfig{default_capabilities()}) {}
  explicit Network(const NetworkConfig&);

  // --- topology and time ---
  NodeId add_node() override;
  using Net::open;
  std::unique_ptr<Fabric> open(NodeId, ChoiceSource&, std::size_t batch) override;
  bool has_events(NodeId node) const noexcept override {
    return nodes_[node].first != nodes_[node].events.size();
  }
  std::size_t event_count(NodeId node) const noexcept override {
    return nodes_[node].events.size() - nodes_[node].first;
  }
  bool holds_message(NodeId node, std::size_t path) const noexcept override;

  // --- faults ---
  void cut(LinkId, Way) override;
  void heal(LinkId, Way, ChoiceSource&) override;
  void heal_all(ChoiceSource&) override;
  std::size_t qp_count() const noexcept override { return qps_.size(); }
  QpInfo qp_info(QpId) const noexcept override;
  void swallow(QpId, bool on, ChoiceSource&) override;
  bool hang(QpId, ChoiceSource&) override;
  bool has_undelivered(QpId) const noexcept override;
  std::uint32_t undelivered_messages(QpId) const noexcept override;
  bool all_delivered(QpId id) const noexcept override { return qps_[id].completed == qps_[id].posted; }
  const std::vector<QpId>& hung() noexcept override;
  void unplug(NodeId, std::uint32_t port, ChoiceSource&) override;
  void plug(NodeId, std::uint32_t port, ChoiceSource&) override;
  // unresolved() draws whether an address fails to resolve; refuses_accept() draws whether accept() fails to
  // create its queue pair.
  bool unresolved(ChoiceSource&);
  bool refuses_accept(NodeId, std::uint32_t request, ChoiceSource&);
  void break_qp(QpId, ChoiceSource&) override;
  void crash(NodeId, bool orderly, ChoiceSource&) override;
  void restart(NodeId) override;

  // --- functions for the fabric; `node` must be up ---
  Region allocate(NodeId, std::size_t bytes);
  Region register_memory(NodeId, std::span<std::byte>);
  void release(NodeId, RegionId);
  std::span<std::byte> memory_of(NodeId, RegionId) noexcept;
  RemoteKey make_key(NodeId, RegionId, std::size_t offset, std::size_t length);
  void release_key(NodeId, RemoteKeyId);
  void invalidate(NodeId, ConKey, RemoteKeyId, std::uint64_t cookie, ChoiceSource&);
  std::uint32_t rebind(NodeId, RemoteKeyId);
  // `port` kNone: all ports of the node.
  Errc listen(NodeId, std::uint32_t port, std::uint16_t service);
  void connect(NodeId, ConKey, std::uint32_t port, NodeId peer, std::uint32_t peer_port,
               std::uint16_t service, const ConnectionParams&, std::span<const std::byte> data,
               ChoiceSource&);
  // Reports ConnectFailed without sending anything.
  void fail_connect(NodeId, ConKey, Reason, ChoiceSource&);
  void accept(NodeId, std::uint32_t request, ConKey, const ConnectionParams&, std::span<const std::byte> data,
              ChoiceSource&);
  // Fails an accept: refuses the request if it is open, and reports `key` lost.
  void fail_accept(NodeId, std::uint32_t request, ConKey, Reason, ChoiceSource&);
  // True if poll() of this node reported the request and the node neither accepted nor rejected it.
  bool is_open_request(NodeId, std::uint32_t request) const noexcept;
  void reject(NodeId, std::uint32_t request, std::span<const std::byte> data, ChoiceSource&);
  void disconnect(NodeId, ConKey, ChoiceSource&);
  void post_receive(NodeId, ConKey, unsigned count, std::uint32_t bytes_each, ChoiceSource&);
  std::size_t post(NodeId, std::span<const WorkRequest>, ChoiceSource&);
  std::size_t poll(NodeId, std::span<FabricEvent>);

  // --- observation ---
  LawMonitor& monitor() noexcept { return monitor_; }
  const LawMonitor& monitor() const noexcept { return monitor_; }
  const std::vector<Violation>& violations() const noexcept override { return monitor_.violations(); }

 private:
  struct Wr {
    WorkRequest::Op op = WorkRequest::Op::write;
    std::uint8_t part_count = 0;
    bool signalled = false;
    bool local_invalidate = false;
    bool torn = false;  // key checked and some of the bytes written
    std::uint32_t imm = 0;
    std::uint32_t rkey = 0;  // local_invalidate: the RemoteKeyId
    std::uint32_t length = 0;
    std::uint64_t remote_addr = 0;
    std::uint64_t cookie = 0;
    std::array<LocalPart, 2> parts{};
    PayloadId payload = kNoPayload;  // copy of the data; if set, `parts` are not read
    Nanos due = 0;                   // earliest time of delivery
  };
  struct Qp {
    enum class State : std::uint8_t { connecting, ready, broken, closing, closed };
    State state = State::connecting;
    bool established = false;  // accepts messages of its peer
    bool lost_reported = false;
    bool late_placement = false;
    bool rnr_waiting = false;  // the next message waits for a receive at the peer
    bool deliver_scheduled = false;
    bool ack_scheduled = false;
    bool budget_scheduled = false;
    bool blocked = false;      // deliveries get no reply
    bool ack_blocked = false;  // acknowledgements are lost
    bool swallowed = false;    // see Network::swallow
    bool hung = false;         // see Network::hang
    bool rnr_scheduled = false;
    NodeId node = kNone;
    QpId peer = kNone;
    LinkId link = kNone;
    Way way = Way::to_server;
    ConKey key{};
    std::uint32_t send_depth = 0;
    std::uint16_t service = 0;
    // Serials of work requests: retired <= completed, delivered <= posted. A retired work request has freed
    // its slot in the send queue.
    std::uint64_t retired = 0, completed = 0, delivered = 0, posted = 0;
    std::uint64_t ack_until = 0;
    std::uint64_t first_failed = kNever;  // work request of a broken queue pair that fails with `cause`
    Ending cause = Ending::flushed;
    std::uint64_t arrivals = 0;  // number of arrivals, reported or pending
    std::vector<Wr> ring;        // size is a power of two
    Nanos stuck_since = kNever;
    Nanos rnr_since = kNever;
    Nanos budget = 0;
    Nanos last_due = 0;
    Nanos slower = 0;  // additional latency, see NetworkConfig::channel_spread
    // Receives are consumed in order. Consecutive receives of equal size share an entry.
    struct Receives {
      std::uint32_t count;
      std::uint32_t bytes;
    };
    std::vector<Receives> receives;
    std::size_t first_receives = 0;
    // Connection management.
    std::uint32_t request = kNone;  // request id at the server; for a client kNone until the request arrives
    std::uint32_t cm_attempts = 0;
    PayloadId cm_data = kNoPayload;  // client: private data of the request; server: of the reply
  };
  struct Ghost {
    QpId from = kNone;
    std::uint64_t serial = 0;
    Wr wr;
  };
  struct Datagram {
    enum class Kind : std::uint8_t { request, reply, reject, stale, refuse, disconnect };
    Kind kind = Kind::request;
    QpId from = kNone;  // queue pair of the sending side; for reject and refuse: of the client
    QpId to = kNone;
    LinkId link = kNone;
    Way way = Way::to_server;
    PayloadId data = kNoPayload;
  };
  struct Request {  // state at the server
    QpId client = kNone;
    NodeId node = kNone;
    std::uint32_t starts = 0;
    enum class State : std::uint8_t { open, accepted, rejected, refused } state = State::open;
    QpId server = kNone;
    PayloadId reject_data = kNoPayload;
  };

  // Defined in network.cpp.
  void act(const Event&, ChoiceSource&) override;
  void link_made(LinkId) override;
  void schedule(Nanos time, Event::Kind kind, std::uint32_t qp, std::uint32_t arg = 0) {
    BasicNet::schedule({time, kind, qp, arg});
  }
  void happened(NetworkEvent);
  Pending& report(NodeId, QpId, const FabricEvent&);
  void report_lost(QpId, Reason);
  Nanos draw_latency(const Link&, ChoiceSource&, Label);
  void link_changed(LinkId, Way, bool cut);
  // Defined in network_memory.cpp.
  std::uint32_t fresh_key(NodeId, RemoteKeyId);
  void revoke(NodeId, RemoteKeyId);
  const Key* find_key(NodeId, const Wr&) const noexcept;  // nullptr: access refused
  void gather(NodeId, const Wr&, std::uint32_t begin, std::uint32_t end, std::byte* to);
  PayloadId snapshot(NodeId, const Wr&);
  void place(QpId responder, QpId requester, std::uint64_t serial, const Wr&, std::uint32_t begin,
             std::uint32_t end, const Key&);
  // Defined in network_transport.cpp.
  Wr& wr_at(Qp& qp, std::uint64_t serial) noexcept { return qp.ring[serial & (qp.ring.size() - 1)]; }
  bool enqueue(QpId, const WorkRequest&, ChoiceSource&);
  void push_wr(QpId, Wr&, ChoiceSource&);
  void schedule_delivery(QpId, Nanos not_before);
  void schedule_ack(QpId, ChoiceSource&);
  void on_deliver(QpId, ChoiceSource&);
  bool reaches_peer(QpId) const noexcept;
  void stuck(QpId, ChoiceSource&);
  void unstick(QpId, ChoiceSource&);
  void poke_rnr(QpId);
  void on_refusal(QpId, ChoiceSource&);
  enum class Outcome : std::uint8_t { done, wait_receive, refused, torn, receive_late };
  Outcome execute(QpId responder, QpId requester, std::uint64_t serial, Wr&, ChoiceSource&);
  Outcome place_payload(QpId responder, QpId requester, std::uint64_t serial, Wr&, ChoiceSource&);
  bool take_receive(Qp&, std::uint32_t& bytes);
  void arrived(QpId responder, QpId requester, std::uint64_t serial, Wr&);
  void run_local(QpId, ChoiceSource&);
  void deliver(QpId, ChoiceSource&);
  void refuse(QpId responder, QpId requester, std::uint64_t serial, ChoiceSource&);
  void grow(Qp&, std::uint64_t oldest);
  void on_acknowledge(QpId, ChoiceSource&);
  void complete_until(QpId, std::uint64_t until);
  void on_budget(QpId, ChoiceSource&);
  void wait_for_receive(QpId);
  void on_rnr(QpId, ChoiceSource&);
  void draw_channel(Qp&, ChoiceSource&);
  void on_ghost(std::uint32_t index, ChoiceSource&);
  // Defined in network_failure.cpp.
  void fail(QpId, Ending cause, std::uint64_t first_failed, ChoiceSource&);
  void spawn_ghosts(QpId, ChoiceSource&);
  void flush(QpId);
  void place_late(QpId, ChoiceSource&);
  void on_close(QpId, ChoiceSource&);
  void drop_queue(QpId);
  // Defined in network_cm.cpp.
  void send_datagram(const Datagram&, ChoiceSource&);
  void on_datagram(std::uint32_t index, ChoiceSource&);
  void on_request(const Datagram&, ChoiceSource&);
  void on_reply(const Datagram&, ChoiceSource&);
  void on_cm_retry(QpId, ChoiceSource&);
  void connect_failed(QpId, Reason, PayloadId data);
  void send_reply(QpId server, ChoiceSource&);
  void send_reject(std::uint32_t request, ChoiceSource&);
  void send_refusal(QpId client, ChoiceSource&);
  void announce_close(QpId, ChoiceSource&);
  QpId make_qp(NodeId, ConKey, LinkId, Way, const ConnectionParams&, ChoiceSource&);

  std::vector<QpId> hung_;  // see hung()
  std::vector<Qp> qps_;
  std::vector<Request> requests_;
  std::vector<Ghost> ghosts_;
  std::vector<std::uint32_t> free_ghosts_;
  std::vector<Datagram> datagrams_;
  std::vector<std::uint32_t> free_datagrams_;
  PayloadPool pool_;
  LawMonitor monitor_;
};

}  // namespace rtrs::sim
