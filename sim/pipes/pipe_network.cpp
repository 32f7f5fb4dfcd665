// Nodes, links, time and faults.
#include "sim/pipes/pipe_network.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/assert.hpp"
#include "sim/pipes/pipe_fabric.hpp"

namespace rtrs::sim {
namespace {

constexpr Nanos kMilli = milliseconds(1);

// A min-heap by time, then by order of scheduling.
struct Later {
  template <class E>
  bool operator()(const E& a, const E& b) const noexcept {
    return a.time != b.time ? a.time > b.time : a.serial > b.serial;
  }
};

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

}  // namespace

PipeNetwork::PipeNetwork(const NetworkConfig& config, tcp::TcpOptions options, std::uint64_t seed)
    : config_(config), tcp_(std::move(options)), seed_(seed) {}

PipeNetwork::~PipeNetwork() = default;

NodeId PipeNetwork::add_node() {
  nodes_.emplace_back();
  return static_cast<NodeId>(nodes_.size() - 1);
}

std::unique_ptr<Fabric> PipeNetwork::open(NodeId node, ChoiceSource& choice, std::size_t batch) {
  return std::make_unique<PipeFabric>(*this, node, choice, batch);
}

void PipeNetwork::schedule(Nanos time, Event::Kind kind, std::uint32_t end) {
  heap_.push_back(Event{std::max(time, now_), next_serial_++, kind, end});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
}

bool PipeNetwork::step(ChoiceSource& choice) {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = std::max(now_, event.time);
  ++stats_.events;
  switch (event.kind) {
    case Event::Kind::wake:
      break;
    case Event::Kind::syn:
      on_syn(event.end, choice);
      break;
    case Event::Kind::established:
      on_established(event.end, choice);
      break;
    case Event::Kind::deliver:
      on_deliver(event.end, choice);
      break;
    case Event::Kind::reset:
      on_reset(event.end);
      break;
    case Event::Kind::budget:
      on_budget(event.end, choice);
      break;
    case Event::Kind::unstick:
      go_on(event.end, choice);
      break;
  }
  return true;
}

void PipeNetwork::run_until(Nanos time, ChoiceSource& choice) {
  if (time > now_ + kMilli) check_sleepers();
  while (!heap_.empty() && heap_.front().time <= time) step(choice);
  now_ = std::max(now_, time);
}

void PipeNetwork::happened(unsigned what, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  hash_ = mixed(mixed(mixed(hash_, now_), a << 8 | what), b << 32 ^ c);
}

// A process that has done its work sends what it posted before it sleeps.
Nanos PipeNetwork::next_time() const noexcept {
  for (const Node& node : nodes_) {
    if (node.up && node.fabric != nullptr) node.fabric->sleeps();
  }
  return heap_.empty() ? kNever : heap_.front().time;
}

bool PipeNetwork::has_events(NodeId id) const noexcept {
  const Node& node = nodes_[id];
  return node.up && node.fabric != nullptr && !sleeps(id);
}

std::size_t PipeNetwork::open_sockets() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(ends_.begin(), ends_.end(), [](const End& end) { return !end.closed; }));
}

// Nothing happens for a while: what was posted is on its way or waits for the peer, and what has come is
// reported, as far as there are receives.
void PipeNetwork::check_sleepers() {
  for (QpId id = 0; id < ends_.size(); ++id) {
    const End& end = ends_[id];
    if (!laws_.is_awaited(id) || end.closed || end.state != End::State::open || end.corrupted) continue;
    const End& peer = ends_[end.peer];
    const bool both =
        !laws_.is_over(end.peer) && peer.keyed && !peer.closed && peer.state == End::State::open;
    // Who was connected to speaks after the first message of the other.
    const bool second = end.way == Way::to_client && !peer.out.empty();
    const bool waits = second || !end.out.empty() || end.unacknowledged != 0 || end.full_since != kNever ||
                       !peer.in.empty() || laws_.receives(end.peer) == 0;
    if (both && !waits && sleeps(end.node) && sleeps(peer.node))
      laws_.violated(22, now_, "processes sleep, and what was posted is in no socket");
  }
}

bool PipeNetwork::sleeps(NodeId id) const noexcept {
  const Node& node = nodes_[id];
  return node.up && node.fabric != nullptr && node.fabric->sleeps() && !is_readable(node);
}

LinkId PipeNetwork::link(NodeId client, std::uint32_t client_port, NodeId server, std::uint32_t server_port) {
  for (LinkId id = 0; id < links_.size(); ++id) {
    const LinkInfo& info = links_[id].info;
    if (info.client == client && info.client_port == client_port && info.server == server &&
        info.server_port == server_port)
      return id;
  }
  Link& made = links_.emplace_back();
  made.info.client = client;
  made.info.client_port = client_port;
  made.info.server = server;
  made.info.server_port = server_port;
  made.latency = config_.latency;
  made.jitter = config_.jitter;
  made.unplugged =
      (is_unplugged(client, client_port) ? 1U : 0U) + (is_unplugged(server, server_port) ? 1U : 0U);
  return static_cast<LinkId>(links_.size() - 1);
}

void PipeNetwork::cut(LinkId id, Way way) {
  bool& cut = links_[id].info.cut[static_cast<unsigned>(way)];
  if (std::exchange(cut, true)) return;
  ++stats_.cuts;
  happened(1, id, static_cast<std::uint64_t>(way));
}

void PipeNetwork::heal(LinkId id, Way way, ChoiceSource& choice) {
  LinkInfo& info = links_[id].info;
  if (info.dead[static_cast<unsigned>(way)] || !std::exchange(info.cut[static_cast<unsigned>(way)], false))
    return;
  happened(2, id, static_cast<std::uint64_t>(way));
  link_changed(id, choice);
}

// What waits for the link goes on a while after it can: it is sent again by timers.
void PipeNetwork::link_changed(LinkId id, ChoiceSource& choice) {
  for (QpId end = 0; end < ends_.size(); ++end) {
    if (ends_[end].link != id || ends_[end].state != End::State::open || ends_[end].stuck_since == kNever)
      continue;
    schedule(now_ + draw_time(choice, config_.retransmit, Label::retransmit_delay), Event::Kind::unstick,
             end);
  }
}

void PipeNetwork::heal_all(ChoiceSource& choice) {
  for (LinkId id = 0; id < links_.size(); ++id) {
    links_[id].starved[0] = links_[id].starved[1] = 0;
    heal(id, Way::to_server, choice);
    heal(id, Way::to_client, choice);
    link_changed(id, choice);
  }
}

void PipeNetwork::kill(LinkId id, Way way) {
  cut(id, way);
  links_[id].info.dead[static_cast<unsigned>(way)] = true;
}

void PipeNetwork::set_latency(LinkId id, Nanos latency, Nanos jitter) {
  links_[id].latency = latency;
  links_[id].jitter = jitter;
}

void PipeNetwork::starve(LinkId id, Way way, Nanos until) {
  links_[id].starved[static_cast<unsigned>(way)] = until;
}

QpInfo PipeNetwork::qp_info(QpId id) const noexcept {
  const End& end = ends_[id];
  QpInfo info;
  info.node = end.node;
  info.peer = end.peer;
  info.link = end.link;
  info.way = end.way;
  info.key = end.key;
  info.alive = !end.closed && end.state != End::State::dead;
  info.established = info.alive && end.state == End::State::open && end.keyed;
  return info;
}

QpId PipeNetwork::find_qp(NodeId node, ConKey key) const noexcept {
  const auto found = nodes_[node].by_key.find(packed(key));
  return found == nodes_[node].by_key.end() ? kNone : found->second;
}

void PipeNetwork::bind(NodeId node, QpId id, ConKey key) {
  ends_[id].key = key;
  ends_[id].keyed = true;
  nodes_[node].by_key[packed(key)] = id;
}

void PipeNetwork::swallow(QpId id, bool on, ChoiceSource& choice) {
  End& end = ends_[id];
  if (on && (end.state != End::State::open || end.closed || end.peer == kNone)) return;
  if (end.swallowed == on || end.hung) return;
  if (on) ++stats_.swallowed;
  happened(3, id, on ? 1 : 0);
  for (const QpId one : {id, end.peer}) {
    if (one == kNone) continue;
    ends_[one].swallowed = on;
    if (!on) go_on(one, choice);
  }
}

bool PipeNetwork::hang(QpId id, ChoiceSource& choice) {
  const End& end = ends_[id];
  if (end.state != End::State::open || end.closed || end.peer == kNone || end.hung) return false;
  const End& peer = ends_[end.peer];
  if (peer.state != End::State::open || peer.closed || !peer.keyed) return false;
  swallow(id, true, choice);
  ends_[id].hung = ends_[end.peer].hung = true;
  hung_.push_back(end.way == Way::to_server ? id : end.peer);
  return true;
}

const std::vector<QpId>& PipeNetwork::hung() noexcept {
  std::erase_if(hung_, [this](QpId id) { return !qp_info(id).established; });
  return hung_;
}

bool PipeNetwork::is_unplugged(NodeId node, std::uint32_t port) const noexcept {
  const auto& ports = nodes_[node].unplugged;
  return std::find(ports.begin(), ports.end(), port) != ports.end();
}

void PipeNetwork::unplug(NodeId node, std::uint32_t port, ChoiceSource& choice) {
  if (is_unplugged(node, port)) return;
  nodes_[node].unplugged.push_back(port);
  ++stats_.unplugged;
  happened(4, node, port);
  for (Link& link : links_) {
    const bool here = (link.info.client == node && link.info.client_port == port) ||
                      (link.info.server == node && link.info.server_port == port);
    if (here) ++link.unplugged;
  }
  for (QpId id = 0; id < ends_.size(); ++id) {
    const End& end = ends_[id];
    if (end.node != node || end.link == kNone) continue;
    const LinkInfo& link = links_[end.link].info;
    if ((end.way == Way::to_server ? link.client_port : link.server_port) == port) break_qp(id, choice);
  }
}

void PipeNetwork::plug(NodeId node, std::uint32_t port, ChoiceSource& choice) {
  if (!is_unplugged(node, port)) return;
  std::erase(nodes_[node].unplugged, port);
  happened(5, node, port);
  for (LinkId id = 0; id < links_.size(); ++id) {
    Link& link = links_[id];
    const bool here = (link.info.client == node && link.info.client_port == port) ||
                      (link.info.server == node && link.info.server_port == port);
    if (here && --link.unplugged == 0) link_changed(id, choice);
  }
}

void PipeNetwork::plan_shortage(NodeId node, std::uint32_t skip, std::uint32_t count) {
  nodes_[node].shortage_after = skip;
  nodes_[node].shortage_count = count;
}

bool PipeNetwork::falls_short(NodeId id, ChoiceSource& choice) {
  Node& node = nodes_[id];
  bool fails = choice.fires(rates_.resource_short, Label::resource_short);
  if (node.shortage_count != 0) {
    const bool planned = node.shortage_after == 0;
    --(planned ? node.shortage_count : node.shortage_after);
    fails = fails || planned;
  }
  if (fails) ++stats_.shortages;
  return fails;
}

std::size_t PipeNetwork::takes(NodeId id, std::size_t offered, ChoiceSource& choice) {
  constexpr unsigned kInARow = 2;
  Node& node = nodes_[id];
  if (offered == 0 || node.short_posts == kInARow || !choice.fires(rates_.post_short, Label::post_short)) {
    node.short_posts = 0;
    return offered;
  }
  ++node.short_posts;
  ++stats_.short_posts;
  return choice.draw(static_cast<std::uint32_t>(offered), Label::post_short);
}

// A reset: this end learns at once, the other one if the message reaches it.
void PipeNetwork::break_qp(QpId id, ChoiceSource& choice) {
  End& end = ends_[id];
  if (end.state == End::State::dead || end.closed) return;
  ++stats_.qp_errors;
  if (end.peer != kNone) send_reset(end.peer, choice);
  fail(id, end.state == End::State::connecting ? ENETDOWN : ECONNABORTED);
}

void PipeNetwork::crash(NodeId id, bool orderly, ChoiceSource& choice) {
  Node& node = nodes_[id];
  if (!node.up) return;
  happened(6, id, orderly ? 1 : 0);
  node.up = false;
  node.silent = !orderly;
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
  node.listeners.clear();
  node.watched.clear();
  node.by_key.clear();
  node.fabric = nullptr;
  node.timer = kNever;
  node.signalled = false;
}

void PipeNetwork::restart(NodeId id) {
  Node& node = nodes_[id];
  if (node.up) return;
  happened(7, id, 0);
  node.up = true;
  node.silent = false;
  ++node.starts;
}

}  // namespace rtrs::sim
