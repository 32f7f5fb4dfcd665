// Local faults of a node: removed adapters, failed allocations and connection attempts, and connections whose
// traffic is dropped.
#include <algorithm>

#include "core/wire/imm.hpp"
#include "sim/net/queue_pairs/network.hpp"

namespace rtrs::sim {

void Network::swallow(QpId id, bool on, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (on && (qp.state != Qp::State::ready || qp.peer == kNone)) return;
  if (qp.swallowed == on || qp.hung) return;
  if (on) ++stats_.swallowed;
  const QpId peer = qp.peer != kNone && qps_[qp.peer].peer == id ? qp.peer : kNone;
  for (const QpId end : {id, peer}) {
    if (end == kNone) continue;
    qps_[end].swallowed = on;
    NetworkEvent h;
    h.kind = on ? NetworkEvent::Kind::connection_cut : NetworkEvent::Kind::connection_healed;
    h.qp = end;
    happened(h);
  }
  for (const QpId end : {id, peer}) {
    if (end == kNone) continue;
    // A sender may be retrying because the peer has no receive; its retries get no reply from now on.
    if (on)
      poke_rnr(end);
    else
      unstick(end, choice);
  }
}

bool Network::hang(QpId id, ChoiceSource& choice) {
  const Qp& qp = qps_[id];
  if (qp.state != Qp::State::ready || qp.peer == kNone || qps_[qp.peer].peer != id || qp.hung) return false;
  swallow(id, true, choice);
  qps_[id].hung = qps_[qp.peer].hung = true;
  hung_.push_back(qp.way == Way::to_server ? id : qp.peer);
  return true;
}

bool Network::has_undelivered(QpId id) const noexcept {
  const Qp& qp = qps_[id];
  if (qp.state != Qp::State::ready) return false;
  for (std::uint64_t serial = qp.delivered; serial < qp.posted; ++serial) {
    const Wr& wr = qp.ring[serial & (qp.ring.size() - 1)];
    const bool imm = wr.op == WorkRequest::Op::write_imm || wr.op == WorkRequest::Op::send_imm;
    if (imm && wire::imm_type(wr.imm) != wire::ImmType::hb_msg &&
        wire::imm_type(wr.imm) != wire::ImmType::hb_ack)
      return true;
  }
  return false;
}

std::uint32_t Network::undelivered_messages(QpId id) const noexcept {
  const Qp& qp = qps_[id];
  std::uint32_t count = 0;
  if (qp.state != Qp::State::ready) return count;
  for (std::uint64_t serial = qp.delivered; serial < qp.posted; ++serial)
    if (qp.ring[serial & (qp.ring.size() - 1)].op == WorkRequest::Op::send) ++count;
  return count;
}

const std::vector<QpId>& Network::hung() noexcept {
  std::erase_if(hung_, [this](QpId id) { return qps_[id].state != Qp::State::ready; });
  return hung_;
}

void Network::unplug(NodeId node, std::uint32_t port, ChoiceSource& choice) {
  if (is_unplugged(node, port)) return;
  nodes_[node].unplugged.push_back(port);
  ++stats_.unplugged;
  for (QpId id = 0; id < qps_.size(); ++id) {
    const Qp& qp = qps_[id];
    if (qp.node != node || qp.link == kNone) continue;
    const LinkInfo& link = links_[qp.link].info;
    if ((qp.way == Way::to_server ? link.client_port : link.server_port) != port) continue;
    if (qp.state == Qp::State::connecting) connect_failed(id, Reason::fabric_gone, kNoPayload);
    report_lost(id, Reason::fabric_gone);
    break_qp(id, choice);
  }
  for (LinkId id = 0; id < links_.size(); ++id) {
    Link& link = links_[id];
    if (!link.is_of(node, port)) continue;
    for (const Way way : {Way::to_server, Way::to_client})
      if (!is_cut(id, way)) link_changed(id, way, true);
    ++link.unplugged;
    for (const QpId qp : link.qps) poke_rnr(qp);
  }
}

void Network::plug(NodeId node, std::uint32_t port, ChoiceSource& choice) {
  if (!is_unplugged(node, port)) return;
  std::erase(nodes_[node].unplugged, port);
  for (LinkId id = 0; id < links_.size(); ++id) {
    Link& link = links_[id];
    if (!link.is_of(node, port) || --link.unplugged != 0) continue;
    for (const Way way : {Way::to_server, Way::to_client})
      if (!is_cut(id, way)) link_changed(id, way, false);
    for (const QpId qp : link.qps) unstick(qp, choice);
  }
}

bool Network::unresolved(ChoiceSource& choice) {
  if (!choice.fires(rates_.resolve_failed, Label::resolve_failed)) return false;
  ++stats_.unresolved;
  return true;
}

bool Network::refuses_accept(NodeId node, std::uint32_t request, ChoiceSource& choice) {
  const LinkInfo& link = links_[qps_[requests_[request].client].link].info;
  if (!is_unplugged(node, link.server_port) && !choice.fires(rates_.accept_failed, Label::accept_failed))
    return false;
  ++stats_.failed_accepts;
  return true;
}

}  // namespace rtrs::sim
