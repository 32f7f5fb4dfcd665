// Acknowledgements and their absence: retries, failures, flushes and closing.
#include <algorithm>

#include "core/base/assert.hpp"
#include "sim/net/queue_pairs/network.hpp"

namespace rtrs::sim {

void Network::on_acknowledge(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  qp.ack_scheduled = false;
  if (qp.state != Qp::State::ready) return;
  const bool weak = !config_.capabilities.done_means_delivered;
  if (!weak && (is_cut(qp.link, opposite(qp.way)) || qp.swallowed)) {
    // Local operations complete without a reply from the peer.
    std::uint64_t until = qp.completed;
    while (until < qp.ack_until && wr_at(qp, until).local_invalidate) ++until;
    if (until > qp.completed) complete_until(id, until);
    if (qp.completed < qp.ack_until) {
      qp.ack_blocked = true;
      stuck(id, choice);
      return;
    }
  }
  if (weak) {
    for (std::uint64_t serial = std::max(qp.completed, qp.delivered); serial < qp.ack_until; ++serial) {
      Wr& wr = wr_at(qp, serial);
      if (!wr.local_invalidate) wr.payload = snapshot(qp.node, wr);
    }
  }
  complete_until(id, qp.ack_until);
  if (!weak) qp.stuck_since = qp.blocked ? now_ : kNever;
  schedule_ack(id, choice);
}

void Network::complete_until(QpId id, std::uint64_t until) {
  Qp& qp = qps_[id];
  if (until <= qp.completed) return;
  NetworkEvent acked;
  acked.kind = NetworkEvent::Kind::acknowledged;
  acked.qp = id;
  acked.wr = until;
  happened(acked);
  for (std::uint64_t serial = qp.completed; serial < until; ++serial) {
    Wr& wr = wr_at(qp, serial);
    if (serial < qp.delivered) {
      pool_.give_back(wr.payload);
      wr.payload = kNoPayload;
    }
    if (!wr.signalled) continue;
    qp.retired = serial + 1;
    NetworkEvent h;
    h.kind = NetworkEvent::Kind::completed;
    h.qp = id;
    h.wr = serial;
    happened(h);
    if (wr.local_invalidate)
      report(qp.node, id, event::ChunkInvalidated{qp.key, wr.cookie, true});
    else
      report(qp.node, id, event::SendDone{qp.key, wr.cookie});
  }
  qp.completed = until;
  if (!config_.strict_send_queue) qp.retired = until;
}

// Called when the queue pair gets no reply. The first call starts its retry budget.
void Network::stuck(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.hung) return;
  if (qp.stuck_since == kNever) qp.stuck_since = now_;
  const Nanos end = qp.stuck_since + qp.budget;
  if (now_ >= end) {
    ++stats_.retry_exceeded;
    fail(id, Ending::retry_exceeded, qp.completed, choice);
    return;
  }
  if (qp.budget_scheduled) return;
  qp.budget_scheduled = true;
  schedule(end, Event::Kind::budget, id);
}

void Network::on_budget(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  qp.budget_scheduled = false;
  // While a retransmission is in progress, its delivery decides what happens.
  if (qp.state != Qp::State::ready || qp.stuck_since == kNever) return;
  if (!qp.blocked && !qp.ack_blocked) return;
  stuck(id, choice);
}

void Network::unstick(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.state != Qp::State::ready || (!qp.blocked && !qp.ack_blocked)) return;
  const Nanos retry = now_ + draw_time(choice, config_.retransmit, Label::retransmit_delay);
  if (qp.blocked) {
    qp.blocked = false;
    schedule_delivery(id, retry);
  }
  if (qp.ack_blocked) {
    qp.ack_blocked = false;
    if (!qp.ack_scheduled) {
      qp.ack_scheduled = true;
      schedule(retry, Event::Kind::acknowledge, id);
    }
  }
}

void Network::wait_for_receive(QpId id) {
  Qp& qp = qps_[id];
  qp.rnr_waiting = true;
  ++stats_.rnr_waits;
  if (config_.rnr_budget == 0) return;
  if (qp.rnr_since == kNever) qp.rnr_since = now_;
  if (qp.rnr_scheduled) return;
  qp.rnr_scheduled = true;
  schedule(qp.rnr_since + config_.rnr_budget, Event::Kind::rnr, id);
}

// Called when the peer may have reported "receiver not ready" for the whole RNR budget.
void Network::on_rnr(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  qp.rnr_scheduled = false;
  if (qp.state != Qp::State::ready || !qp.rnr_waiting || qp.rnr_since == kNever) return;
  const Nanos end = qp.rnr_since + config_.rnr_budget;
  if (now_ < end) {
    qp.rnr_scheduled = true;
    return schedule(end, Event::Kind::rnr, id);
  }
  if (qp.swallowed || !reaches_peer(id)) return poke_rnr(id);
  if (is_cut(qp.link, opposite(qp.way))) {
    // The peer's RNR NAKs are lost now. The budget starts again with the next NAK that arrives.
    qp.rnr_since = now_;
    qp.rnr_scheduled = true;
    return schedule(now_ + config_.rnr_budget, Event::Kind::rnr, id);
  }
  ++stats_.rnr_exceeded;
  const std::uint64_t serial = qp.delivered;
  if (config_.capabilities.done_means_delivered) complete_until(id, serial);
  qp.rnr_waiting = false;
  fail(id, Ending::rnr_exceeded, std::max(serial, qp.completed), choice);
}

void Network::poke_rnr(QpId id) {
  Qp& qp = qps_[id];
  if (!qp.rnr_waiting) return;
  qp.rnr_waiting = false;
  schedule_delivery(id, now_);
}

void Network::fail(QpId id, Ending cause, std::uint64_t first_failed, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.state != Qp::State::ready) return;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::qp_broken;
  h.qp = id;
  h.ending = cause;
  happened(h);
  spawn_ghosts(id, choice);
  qp.state = Qp::State::broken;
  qp.cause = cause;
  qp.first_failed = first_failed;
  report_lost(id, Reason::transport_error);
  if (qp.peer != kNone) poke_rnr(qp.peer);
}

void Network::break_qp(QpId id, ChoiceSource& choice) {
  if (id < qps_.size()) fail(id, Ending::local_error, qps_[id].completed, choice);
}

// Messages that were sent before the sender broke may still be executed, in order, by the peer that the
// sender had then. Such messages are called ghosts.
void Network::spawn_ghosts(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  const std::uint64_t waiting = qp.posted - qp.delivered;
  if (waiting == 0 || !reaches_peer(id)) return;
  if (is_cut(qp.link, qp.way) || qp.swallowed) return;
  const std::uint32_t count = choice.draw(static_cast<std::uint32_t>(waiting + 1), Label::ghost_count);
  Nanos time = now_;
  for (std::uint64_t serial = qp.delivered; serial < qp.delivered + count; ++serial) {
    Wr& wr = wr_at(qp, serial);
    if (wr.local_invalidate) break;
    time = std::max(time, wr.due);
    if (choice.fires(rates_.ghost_delay, Label::ghost_delay)) {
      time += draw_exponential(choice, 0, config_.ghost_hold, Label::ghost_delay);
    }
    std::uint32_t index = 0;
    if (free_ghosts_.empty()) {
      index = static_cast<std::uint32_t>(ghosts_.size());
      ghosts_.emplace_back();
    } else {
      index = free_ghosts_.back();
      free_ghosts_.pop_back();
    }
    wr.payload = snapshot(qp.node, wr);
    ghosts_[index] = Ghost{id, serial, wr};
    wr.payload = kNoPayload;
    schedule(time, Event::Kind::ghost, id, index);
  }
}

void Network::on_ghost(std::uint32_t index, ChoiceSource& choice) {
  Ghost ghost = ghosts_[index];
  free_ghosts_.push_back(index);
  Qp& from = qps_[ghost.from];
  const bool lost = is_cut(from.link, from.way) || from.swallowed;
  if (!lost && reaches_peer(ghost.from) && from.delivered == ghost.serial) {
    ++stats_.ghosts;
    const Outcome outcome = execute(from.peer, ghost.from, ghost.serial, ghost.wr, choice);
    if (outcome == Outcome::done) ++from.delivered;
    if (outcome == Outcome::refused) refuse(from.peer, ghost.from, ghost.serial, choice);
    // Other outcomes (part of the data, or no receive) end here: no sender is left to retransmit.
  }
  pool_.give_back(ghost.wr.payload);
}

void Network::flush(QpId id) {
  Qp& qp = qps_[id];
  for (std::uint64_t serial = qp.completed; serial < qp.posted; ++serial) {
    NetworkEvent h;
    h.kind = NetworkEvent::Kind::completed;
    h.qp = id;
    h.wr = serial;
    h.ending = serial == qp.first_failed ? qp.cause : Ending::flushed;
    happened(h);
  }
  std::uint32_t receives = 0;
  for (std::size_t i = qp.first_receives; i < qp.receives.size(); ++i) receives += qp.receives[i].count;
  if (receives == 0) return;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::receive_flushed;
  h.qp = id;
  h.length = receives;
  happened(h);
}

void Network::drop_queue(QpId id) {
  Qp& qp = qps_[id];
  for (std::uint64_t serial = std::min(qp.completed, qp.delivered); serial < qp.posted; ++serial) {
    pool_.give_back(wr_at(qp, serial).payload);
  }
  // Keeps the serials, because ghosts of this queue pair refer to them.
  qp.completed = qp.retired = qp.posted;
  std::vector<Wr>().swap(qp.ring);
  std::vector<Qp::Receives>().swap(qp.receives);
  qp.first_receives = 0;
  pool_.give_back(qp.cm_data);
  qp.cm_data = kNoPayload;
}

void Network::disconnect(NodeId node, ConKey key, ChoiceSource& choice) {
  const QpId id = find_qp(node, key);
  if (id == kNone) return;
  Qp& qp = qps_[id];
  if (qp.state == Qp::State::closing || qp.state == Qp::State::closed) return;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::qp_disconnected;
  h.qp = id;
  happened(h);
  if (qp.state == Qp::State::ready) spawn_ghosts(id, choice);
  announce_close(id, choice);
  qp.state = Qp::State::closing;
  qp.late_placement = choice.fires(rates_.late_placement, Label::late_placement);
  if (qp.peer != kNone) poke_rnr(qp.peer);
  Nanos drain = draw_time(choice, config_.drain, Label::drain_delay);
  if (choice.fires(rates_.slow_drain, Label::drain_delay)) {
    drain += draw_exponential(choice, 0, config_.slow_drain_hold, Label::drain_delay);
  }
  schedule(now_ + drain, Event::Kind::close, id);
}

void Network::on_close(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.state != Qp::State::closing) return;
  if (qp.late_placement) place_late(id, choice);
  flush(id);
  qp.state = Qp::State::closed;
  drop_queue(id);
  nodes_[qp.node].by_key.erase(packed(qp.key));
  report(qp.node, id, event::ConnectionClosed{qp.key});
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::qp_closed;
  h.qp = id;
  happened(h);
}

// The adapter finishes a transfer in progress after the connection was closed.
void Network::place_late(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.peer == kNone) return;
  Qp& peer = qps_[qp.peer];
  if (peer.state != Qp::State::ready || peer.delivered == peer.posted || peer.peer != id) return;
  if (is_cut(qp.link, peer.way) || peer.swallowed) return;
  Wr& wr = wr_at(peer, peer.delivered);
  const bool is_write = wr.op == WorkRequest::Op::write || wr.op == WorkRequest::Op::write_imm;
  if (wr.local_invalidate || !is_write || wr.length == 0) return;
  ++stats_.late_placements;
  place_payload(id, qp.peer, peer.delivered, wr, choice);
}

void Network::crash(NodeId node_id, bool orderly, ChoiceSource& choice) {
  Node& node = nodes_[node_id];
  if (!node.up) return;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::node_crashed;
  h.node = node_id;
  happened(h);
  node.up = false;
  node.silent = !orderly;
  for (QpId id = 0; id < qps_.size(); ++id) {
    Qp& qp = qps_[id];
    if (qp.node != node_id || qp.state == Qp::State::closed) continue;
    if (qp.state == Qp::State::ready) spawn_ghosts(id, choice);
    if (orderly && qp.state != Qp::State::closing) announce_close(id, choice);
    qp.state = Qp::State::closed;
    drop_queue(id);
    if (qp.peer != kNone) poke_rnr(qp.peer);
  }
  for (RemoteKeyId key = 0; key < node.keys.size(); ++key) revoke(node_id, key);
  for (std::size_t i = node.first; i < node.events.size(); ++i) pool_.give_back(node.events[i].payload);
  for (const PayloadId id : node.held) pool_.give_back(id);
  node.events.clear();
  node.first = 0;
  node.held.clear();
  node.listeners.clear();
  node.by_key.clear();
}

void Network::restart(NodeId node_id) {
  Node& node = nodes_[node_id];
  if (node.up) return;
  node.up = true;
  node.silent = false;
  ++node.starts;
  node.memory.clear();
  node.keys.clear();
  node.free_keys.clear();
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::node_restarted;
  h.node = node_id;
  happened(h);
}

}  // namespace rtrs::sim
