#include "sim/network/network.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace rtrs::sim {
namespace {

LawMonitor::Options laws_of(const NetworkConfig& config) {
  const Capabilities& capabilities = config.capabilities;
  LawMonitor::Options options;
  options.infinite_rnr = config.rnr_budget == 0;
  options.done_means_delivered = capabilities.done_means_delivered;
  options.imm_consumes_receive = capabilities.imm_consumes_receive;
  options.invalidation_fences = capabilities.invalidation_fences;
  return options;
}

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

Capabilities default_capabilities() noexcept {
  Capabilities c;
  c.name = "sim";
  c.max_send_depth = 4096;
  c.max_receive_depth = 4096;
  c.max_message = 1u << 30;
  c.connect_data = 56;
  c.accept_data = 196;
  c.reject_data = 148;
  c.imm_consumes_receive = true;
  c.send_invalidate = true;
  c.per_io_keys = true;
  c.invalidation = true;
  c.invalidation_fences = true;
  c.done_means_delivered = true;
  c.detects_silent_peer = false;
  return c;
}

Capabilities weak_capabilities() noexcept {
  Capabilities c = default_capabilities();
  c.name = "sim/weak";
  c.imm_consumes_receive = false;
  c.send_invalidate = false;
  c.per_io_keys = false;
  c.invalidation_fences = false;
  c.done_means_delivered = false;
  return c;
}

Network::Network(const NetworkConfig& config) : config_(config), monitor_(laws_of(config)) {}

NodeId Network::add_node() {
  nodes_.emplace_back();
  return static_cast<NodeId>(nodes_.size() - 1);
}

void Network::schedule(Nanos time, Event::Kind kind, std::uint32_t qp, std::uint32_t arg) {
  heap_.push_back(Event{time < now_ ? now_ : time, next_serial_++, kind, qp, arg});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
}

bool Network::step(ChoiceSource& choice) {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = event.time > now_ ? event.time : now_;
  ++stats_.events;
  switch (event.kind) {
    case Event::Kind::deliver:
      qps_[event.qp].deliver_scheduled = false;
      on_deliver(event.qp, choice);
      break;
    case Event::Kind::acknowledge:
      on_acknowledge(event.qp, choice);
      break;
    case Event::Kind::budget:
      on_budget(event.qp, choice);
      break;
    case Event::Kind::ghost:
      on_ghost(event.arg, choice);
      break;
    case Event::Kind::datagram:
      on_datagram(event.arg, choice);
      break;
    case Event::Kind::cm_retry:
      on_cm_retry(event.qp, choice);
      break;
    case Event::Kind::close:
      on_close(event.qp, choice);
      break;
    case Event::Kind::heal:
      heal(event.qp, static_cast<Way>(event.arg), choice);
      break;
    case Event::Kind::broken_peer:
      on_refusal(event.qp, choice);
      break;
    case Event::Kind::rnr:
      on_rnr(event.qp, choice);
      break;
  }
  return true;
}

void Network::run_until(Nanos time, ChoiceSource& choice) {
  while (!heap_.empty() && heap_.front().time <= time) step(choice);
  now_ = std::max(now_, time);
}

void Network::happened(NetworkEvent h) {
  h.time = now_;
  const std::uint64_t kinds =
      static_cast<std::uint64_t>(h.kind) | static_cast<std::uint64_t>(h.way) << 8 |
      static_cast<std::uint64_t>(h.ending) << 16 | static_cast<std::uint64_t>(h.op) << 24 |
      static_cast<std::uint64_t>(h.flag) << 32 | static_cast<std::uint64_t>(h.local) << 33;
  std::uint64_t hash = mixed(hash_, kinds);
  hash = mixed(hash, std::uint64_t{h.qp} << 32 | h.peer);
  hash = mixed(hash, std::uint64_t{h.node} << 32 | h.link);
  hash = mixed(hash, std::uint64_t{h.imm} << 32 | h.rkey);
  hash = mixed(hash, std::uint64_t{h.length} << 32 | (h.wr & 0xffff'ffff));
  hash = mixed(hash, h.value);
  hash = mixed(hash, h.digest);
  hash_ = mixed(hash, h.time);
  monitor_.on(h);
}

Network::Pending& Network::report(NodeId node_id, QpId qp, const FabricEvent& event) {
  Pending& pending = nodes_[node_id].events.emplace_back();
  pending.event = event;
  pending.qp = qp;
  return pending;
}

void Network::report_lost(QpId id, Reason reason) {
  Qp& qp = qps_[id];
  if (qp.lost_reported || qp.state == Qp::State::closing || qp.state == Qp::State::closed) return;
  qp.lost_reported = true;
  report(qp.node, id, event::ConnectionLost{qp.key, reason});
}

std::size_t Network::poll(NodeId node_id, std::span<FabricEvent> out) {
  Node& node = nodes_[node_id];
  for (const PayloadId id : node.held) pool_.give_back(id);
  node.held.clear();
  const std::size_t count = std::min(out.size(), node.events.size() - node.first);
  for (std::size_t i = 0; i < count; ++i) {
    const Pending& pending = node.events[node.first + i];
    out[i] = pending.event;
    if (pending.payload != kNoPayload) {
      if (auto* const bytes = bytes_in(out[i])) *bytes = pool_[pending.payload];
      node.held.push_back(pending.payload);
    }
    if (pending.arrival) {
      NetworkEvent h;
      h.kind = NetworkEvent::Kind::reported;
      h.qp = pending.qp;
      h.op = pending.op;
      h.imm = pending.imm;
      h.length = pending.length;
      h.wr = pending.serial;
      happened(h);
    }
  }
  node.first += count;
  if (node.first == node.events.size()) {
    node.events.clear();
    node.first = 0;
  } else if (node.first > 4096) {
    node.events.erase(node.events.begin(), node.events.begin() + static_cast<std::ptrdiff_t>(node.first));
    node.first = 0;
  }
  return count;
}

bool Network::holds_message(NodeId node_id, std::size_t path) const noexcept {
  const Node& node = nodes_[node_id];
  return std::any_of(
      node.events.begin() + static_cast<std::ptrdiff_t>(node.first), node.events.end(),
      [path](const Pending& pending) { return pending.arrival && key_of(pending.event)->path == path; });
}

LinkId Network::link(NodeId client, std::uint32_t client_port, NodeId server, std::uint32_t server_port) {
  for (LinkId id = 0; id < links_.size(); ++id) {
    const LinkInfo& info = links_[id].info;
    if (info.client == client && info.client_port == client_port && info.server == server &&
        info.server_port == server_port) {
      return id;
    }
  }
  Link& made = links_.emplace_back();
  made.info.client = client;
  made.info.client_port = client_port;
  made.info.server = server;
  made.info.server_port = server_port;
  made.latency = config_.latency;
  made.jitter = config_.jitter;
  const auto id = static_cast<LinkId>(links_.size() - 1);
  made.unplugged =
      (is_unplugged(client, client_port) ? 1U : 0U) + (is_unplugged(server, server_port) ? 1U : 0U);
  for (const Way way : {Way::to_server, Way::to_client})
    if (made.unplugged != 0) link_changed(id, way, true);
  return id;
}

LinkInfo Network::link_info(LinkId id) const noexcept {
  return links_[id].info;
}

void Network::set_latency(LinkId id, Nanos latency, Nanos jitter) {
  links_[id].latency = latency;
  links_[id].jitter = jitter;
}

void Network::starve(LinkId id, Way way, Nanos until) {
  links_[id].starved[static_cast<unsigned>(way)] = until;
}

Nanos Network::draw_latency(const Link& link, ChoiceSource& choice, Label label) {
  return link.latency + draw_time(choice, link.jitter, label);
}

void Network::link_changed(LinkId id, Way way, bool cut) {
  NetworkEvent h;
  h.kind = cut ? NetworkEvent::Kind::link_cut : NetworkEvent::Kind::link_healed;
  h.link = id;
  h.way = way;
  happened(h);
}

void Network::cut(LinkId id, Way way) {
  Link& link = links_[id];
  const bool was_cut = is_cut(id, way);
  bool& cut = link.info.cut[static_cast<unsigned>(way)];
  if (cut) return;
  cut = true;
  ++stats_.cuts;
  if (was_cut) return;
  link_changed(id, way, true);
  // Who waits for a receive asks again and again, and now gets no answer.
  std::erase_if(link.qps, [this](QpId qp) { return qps_[qp].state == Qp::State::closed; });
  for (const QpId qp : link.qps) poke_rnr(qp);
}

void Network::heal(LinkId id, Way way, ChoiceSource& choice) {
  Link& link = links_[id];
  bool& cut = link.info.cut[static_cast<unsigned>(way)];
  if (!cut || link.info.dead[static_cast<unsigned>(way)]) return;
  cut = false;
  if (is_cut(id, way)) return;
  link_changed(id, way, false);
  for (const QpId qp : link.qps) unstick(qp, choice);
}

void Network::kill(LinkId id, Way way) {
  cut(id, way);
  links_[id].info.dead[static_cast<unsigned>(way)] = true;
}

void Network::heal_all(ChoiceSource& choice) {
  for (LinkId id = 0; id < links_.size(); ++id) {
    heal(id, Way::to_server, choice);
    heal(id, Way::to_client, choice);
    links_[id].starved[0] = links_[id].starved[1] = 0;
  }
}

QpInfo Network::qp_info(QpId id) const noexcept {
  const Qp& qp = qps_[id];
  QpInfo info;
  info.node = qp.node;
  info.peer = qp.peer;
  info.link = qp.link;
  info.way = qp.way;
  info.key = qp.key;
  info.alive = qp.state == Qp::State::ready || qp.state == Qp::State::connecting;
  info.established = qp.state == Qp::State::ready && qp.established;
  return info;
}

QpId Network::find_qp(NodeId node_id, ConKey key) const noexcept {
  const Node& node = nodes_[node_id];
  const auto found = node.by_key.find(packed(key));
  return found == node.by_key.end() ? kNone : found->second;
}

}  // namespace rtrs::sim
