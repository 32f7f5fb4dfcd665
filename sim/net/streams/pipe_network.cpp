// Nodes, links, time and faults of a PipeNetwork.
#include "sim/net/streams/pipe_network.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/assert.hpp"
#include "sim/net/streams/pipe_fabric.hpp"

namespace rtrs::sim {
namespace {

constexpr Nanos kMilli = milliseconds(1);

}  // namespace

PipeNetwork::PipeNetwork(const NetworkConfig& config, tcp::TcpOptions options, std::uint64_t seed)
    : EngineNet(config, 0x7069706573ULL), tcp_(std::move(options)), seed_(seed) {}

PipeNetwork::~PipeNetwork() = default;

NodeId PipeNetwork::add_node() {
  nodes_.emplace_back();
  return static_cast<NodeId>(nodes_.size() - 1);
}

std::unique_ptr<Fabric> PipeNetwork::open(NodeId node, ChoiceSource& choice, std::size_t batch) {
  return std::make_unique<PipeFabric>(*this, node, choice, batch);
}

void PipeNetwork::act(const Event& event, ChoiceSource& choice) {
  changes();
  switch (event.kind) {
    case Event::Kind::wake:
      break;
    case Event::Kind::syn:
      on_syn(event.which, choice);
      break;
    case Event::Kind::established:
      on_established(event.which, choice);
      break;
    case Event::Kind::deliver:
      on_deliver(event.which, choice);
      break;
    case Event::Kind::reset:
      on_reset(event.which);
      break;
    case Event::Kind::budget:
      on_budget(event.which, choice);
      break;
    case Event::Kind::unstick:
      go_on(event.which, choice);
      break;
  }
}

void PipeNetwork::run_until(Nanos time, ChoiceSource& choice) {
  if (time > now_ + kMilli) check_sleepers();
  EngineNet::run_until(time, choice);
}

// Lets each process send what it has posted, as it would before it sleeps.
Nanos PipeNetwork::next_time() const noexcept {
  for (const Node& node : nodes_) {
    if (node.up && node.fabric != nullptr) node.fabric->sleeps();
  }
  return EngineNet::next_time();
}

std::size_t PipeNetwork::open_sockets() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(ends_.begin(), ends_.end(), [](const End& end) { return !end.closed; }));
}

// Called when no process runs. Everything posted must be in a socket or wait for the peer, and everything
// received must be reported, as far as receives are posted.
void PipeNetwork::check_sleepers() {
  for (QpId id = 0; id < ends_.size(); ++id) {
    const End& end = ends_[id];
    if (end.closed || end.state != End::State::open || end.corrupted || !laws_.is_awaited(id)) continue;
    const End& peer = ends_[end.peer];
    const bool both =
        !laws_.is_over(end.peer) && peer.keyed && !peer.closed && peer.state == End::State::open;
    // The accepting side may send only after the first message of the connecting side.
    const bool second = end.way == Way::to_client && !peer.out.empty();
    const bool waits = second || !end.out.empty() || end.unacknowledged != 0 || end.owed_since != kNever ||
                       !peer.in.empty() || laws_.receives(end.peer) == 0;
    if (both && !waits && sleeps(end.node) && sleeps(peer.node))
      laws_.violated(22, now_, "both processes sleep although posted data is in no socket");
  }
}

bool PipeNetwork::sleeps(NodeId id) const noexcept {
  const Node& node = nodes_[id];
  return node.up && node.fabric != nullptr && node.fabric->sleeps() && !is_readable(node);
}

QpInfo PipeNetwork::qp_info(QpId id) const noexcept {
  const End& end = ends_[id];
  QpInfo info = info_of(end);
  info.alive = !end.closed && end.state != End::State::dead;
  info.established = info.alive && end.state == End::State::open && end.keyed;
  return info;
}

void PipeNetwork::bind(NodeId node, QpId id, ConKey key) {
  changes();
  ends_[id].key = key;
  ends_[id].keyed = true;
  nodes_[node].by_key[packed(key)] = id;
}

bool PipeNetwork::hang(QpId id, ChoiceSource& choice) {
  const End& end = ends_[id];
  if (end.state != End::State::open || end.closed || end.peer == kNone || end.hung) return false;
  const End& peer = ends_[end.peer];
  if (peer.state != End::State::open || peer.closed || !peer.keyed) return false;
  make_hung(id, choice);
  return true;
}

void PipeNetwork::taken_out(NodeId node, std::uint32_t port, ChoiceSource& choice) {
  for (QpId id = 0; id < ends_.size(); ++id) {
    const End& end = ends_[id];
    if (end.node != node || end.link == kNone) continue;
    const LinkInfo& link = links_[end.link].info;
    if ((end.way == Way::to_server ? link.client_port : link.server_port) == port) break_qp(id, choice);
  }
}

// Resets the stream. This end is notified at once, the other end when the reset arrives.
void PipeNetwork::break_qp(QpId id, ChoiceSource& choice) {
  End& end = ends_[id];
  if (end.state == End::State::dead || end.closed) return;
  ++stats_.qp_errors;
  if (end.peer != kNone) send_reset(end.peer, choice);
  fail(id, end.state == End::State::connecting ? ENETDOWN : ECONNABORTED);
}

void PipeNetwork::crash(NodeId id, bool orderly, ChoiceSource& choice) {
  if (!mark_down(id, orderly)) return;
  changes();
  for (QpId one = 0; one < ends_.size(); ++one) {
    End& end = ends_[one];
    if (end.node != id) continue;
    if (orderly) {
      close_end(one, choice);
    } else {
      fail(one, ECONNABORTED);
    }
    end.watched = nullptr;
    end.closed = true;
  }
  Node& node = nodes_[id];
  node.listeners.clear();
  node.watched.clear();
  node.fabric = nullptr;
  node.timer = kNever;
  node.signalled = false;
}

}  // namespace rtrs::sim
