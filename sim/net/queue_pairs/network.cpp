#include "sim/net/queue_pairs/network.hpp"

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

Network::Network(const NetworkConfig& config)
    : BasicNet(config, 0x7572747273ULL), monitor_(laws_of(config)) {}

NodeId Network::add_node() {
  nodes_.emplace_back();
  return static_cast<NodeId>(nodes_.size() - 1);
}

void Network::act(const Event& event, ChoiceSource& choice) {
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
  if (node.first == node.events.size()) return 0;  // the common case
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
      [path](const Pending& pending) { return pending.arrival && key_of(pending.event)->place() == path; });
}

void Network::link_made(LinkId id) {
  for (const Way way : {Way::to_server, Way::to_client})
    if (links_[id].unplugged != 0) link_changed(id, way, true);
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
  // Some senders are retrying because the peer has no receive; their retries get no reply from now on.
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

}  // namespace rtrs::sim
