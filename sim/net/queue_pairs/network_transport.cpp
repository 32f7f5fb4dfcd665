// Work requests from post to completion.
#include <algorithm>
#include <bit>

#include "core/base/assert.hpp"
#include "sim/net/queue_pairs/network.hpp"

namespace rtrs::sim {
namespace {

bool takes_receive(WorkRequest::Op op, const Capabilities& capabilities) noexcept {
  if (op == WorkRequest::Op::write) return false;
  return op != WorkRequest::Op::write_imm || capabilities.imm_consumes_receive;
}

bool is_write(WorkRequest::Op op) noexcept {
  return op == WorkRequest::Op::write || op == WorkRequest::Op::write_imm;
}

}  // namespace

std::size_t Network::post(NodeId node, std::span<const WorkRequest> requests, ChoiceSource& choice) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const QpId id = find_qp(node, requests[i].key);
    // A lost connection accepts work requests and drops them.
    if (id == kNone || qps_[id].state != Qp::State::ready || qps_[id].lost_reported) continue;
    if (!enqueue(id, requests[i], choice)) return i;
  }
  return requests.size();
}

bool Network::enqueue(QpId id, const WorkRequest& request, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.posted - qp.retired >= qp.send_depth) return false;
  // If a completion only means "copied", the amount of copied but undelivered work is limited too.
  if (qp.posted - std::min(qp.completed, qp.delivered) >= std::uint64_t{4} * qp.send_depth) return false;
  Wr wr;
  wr.op = request.op;
  wr.signalled = request.signalled;
  wr.imm = request.imm;
  wr.rkey = request.rkey;
  wr.remote_addr = request.remote_addr;
  wr.cookie = request.cookie;
  if (is_write(request.op)) {
    wr.part_count = request.part_count;
    wr.parts = request.parts;
    for (unsigned i = 0; i < wr.part_count; ++i) wr.length += wr.parts[i].length;
    if (wr.length != 0 && choice.fires(rates_.source_read_early, Label::source_read)) {
      wr.payload = snapshot(qp.node, wr);
    }
  } else {
    wr.length = static_cast<std::uint32_t>(request.inline_bytes.size());
    if (wr.length != 0) wr.payload = pool_.take(request.inline_bytes);
  }
  RTRS_ASSERT(wr.length <= config_.capabilities.max_message);
  push_wr(id, wr, choice);
  return true;
}

void Network::push_wr(QpId id, Wr& wr, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  const std::uint64_t oldest = std::min({qp.completed, qp.delivered});
  if (qp.posted - oldest == qp.ring.size()) grow(qp, oldest);
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::posted;
  h.qp = id;
  h.wr = qp.posted;
  h.op = wr.op;
  h.length = wr.length;
  h.imm = wr.imm;
  h.rkey = wr.rkey;
  h.value = wr.remote_addr;
  h.flag = wr.signalled;
  h.local = wr.local_invalidate;
  happened(h);
  if (config_.channel_spread != 0) draw_channel(qp, choice);
  wr.due = std::max(qp.last_due, now_ + qp.slower + draw_latency(links_[qp.link], choice, Label::latency));
  qp.last_due = wr.due;
  wr_at(qp, qp.posted) = wr;
  ++qp.posted;
  schedule_delivery(id, 0);
  if (!config_.capabilities.done_means_delivered) schedule_ack(id, choice);
}

void Network::grow(Qp& qp, std::uint64_t oldest) {
  std::vector<Wr> larger(std::max<std::size_t>(16, qp.ring.size() * 2));
  for (std::uint64_t serial = oldest; serial < qp.posted; ++serial) {
    larger[serial & (larger.size() - 1)] = wr_at(qp, serial);
  }
  qp.ring.swap(larger);
}

void Network::post_receive(NodeId node, ConKey key, unsigned count, std::uint32_t bytes_each,
                           ChoiceSource& choice) {
  const QpId id = find_qp(node, key);
  if (id == kNone || count == 0) return;
  Qp& qp = qps_[id];
  if (qp.state != Qp::State::ready && qp.state != Qp::State::connecting) return;
  if (qp.receives.size() > qp.first_receives && qp.receives.back().bytes == bytes_each) {
    qp.receives.back().count += count;
  } else {
    if (qp.first_receives == qp.receives.size()) {
      qp.receives.clear();
      qp.first_receives = 0;
    }
    qp.receives.push_back(Qp::Receives{count, bytes_each});
  }
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::receives_posted;
  h.qp = id;
  h.length = count;
  happened(h);
  if (qp.peer == kNone || !qps_[qp.peer].rnr_waiting) return;
  qps_[qp.peer].rnr_waiting = false;
  schedule_delivery(qp.peer, now_ + draw_time(choice, config_.jitter, Label::rnr_delay));
}

bool Network::take_receive(Qp& qp, std::uint32_t& bytes) {
  if (qp.first_receives == qp.receives.size()) return false;
  Qp::Receives& run = qp.receives[qp.first_receives];
  bytes = run.bytes;
  if (--run.count == 0) ++qp.first_receives;
  return true;
}

void Network::draw_channel(Qp& qp, ChoiceSource& choice) {
  if (qp.posted == 0 || choice.hits(1, config_.channel_turns, Label::channel))
    qp.slower = draw_time(choice, config_.channel_spread, Label::channel);
}

void Network::schedule_delivery(QpId id, Nanos not_before) {
  Qp& qp = qps_[id];
  if (qp.deliver_scheduled || qp.rnr_waiting || qp.blocked) return;
  if (qp.state != Qp::State::ready || qp.delivered == qp.posted) return;
  qp.deliver_scheduled = true;
  schedule(std::max(not_before, wr_at(qp, qp.delivered).due), Event::Kind::deliver, id);
}

void Network::schedule_ack(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.ack_scheduled || qp.ack_blocked || qp.state != Qp::State::ready) return;
  const std::uint64_t until = config_.capabilities.done_means_delivered ? qp.delivered : qp.posted;
  if (qp.completed >= until) return;
  qp.ack_scheduled = true;
  qp.ack_until = until;
  schedule(now_ + draw_latency(links_[qp.link], choice, Label::ack_latency), Event::Kind::acknowledge, id);
}

bool Network::reaches_peer(QpId id) const noexcept {
  const Qp& qp = qps_[id];
  if (qp.peer == kNone) return false;
  const Qp& peer = qps_[qp.peer];
  return peer.state == Qp::State::ready && peer.established && peer.peer == id;
}

void Network::on_deliver(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.state != Qp::State::ready || qp.delivered == qp.posted) return;
  Wr& wr = wr_at(qp, qp.delivered);
  if (wr.local_invalidate) {
    run_local(id, choice);
    return;
  }
  const Link& link = links_[qp.link];
  const auto way = static_cast<unsigned>(qp.way);
  if (qp.key.con == 0 && wr.op == WorkRequest::Op::write_imm && wr.length == 0 && link.starved[way] > now_) {
    qp.deliver_scheduled = true;
    schedule(link.starved[way], Event::Kind::deliver, id);
    return;
  }
  if (wr.op == WorkRequest::Op::send && qp.key.con == 0 && !is_cut(qp.link, qp.way) &&
      choice.fires(rates_.info_cut, Label::info_cut)) {
    cut(qp.link, qp.way);
    const Nanos hold =
        draw_exponential(choice, config_.info_cut_hold / 10, config_.info_cut_hold, Label::fault_hold);
    schedule(now_ + hold, Event::Kind::heal, qp.link, way);
  }
  if (is_cut(qp.link, qp.way) || qp.swallowed || !reaches_peer(id)) {
    qp.blocked = true;
    qp.rnr_since = kNever;
    stuck(id, choice);
    return;
  }
  if (choice.fires(rates_.qp_error, Label::qp_error)) {
    const bool own_side = choice.draw(2, Label::qp_error_side) == 0;
    ++stats_.qp_errors;
    const QpId broken = own_side ? id : qp.peer;
    qp.blocked = false;
    break_qp(broken, choice);
    // A sender whose peer is broken retries until its budget is exhausted.
    schedule_delivery(id, now_);
    return;
  }
  deliver(id, choice);
}

void Network::deliver(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  const std::uint64_t serial = qp.delivered;
  Wr& wr = wr_at(qp, serial);
  switch (execute(qp.peer, id, serial, wr, choice)) {
    case Outcome::done:
      ++qp.delivered;
      qp.rnr_since = kNever;
      if (serial < qp.completed) {  // completed when it was copied
        pool_.give_back(wr.payload);
        wr.payload = kNoPayload;
      }
      // If completions do not prove delivery, an arrival at the peer ends an outage.
      if (!config_.capabilities.done_means_delivered) qp.stuck_since = kNever;
      schedule_ack(id, choice);
      schedule_delivery(id, 0);
      return;
    case Outcome::wait_receive:
      wait_for_receive(id);
      return;
    case Outcome::torn:
      qp.deliver_scheduled = true;
      schedule(now_ + 1 + draw_time(choice, config_.torn_hold, Label::torn_delay), Event::Kind::deliver, id);
      return;
    case Outcome::receive_late:
      qp.deliver_scheduled = true;
      schedule(now_ + 1 + draw_time(choice, config_.jitter, Label::rnr_delay), Event::Kind::deliver, id);
      return;
    case Outcome::refused:
      ++stats_.refused;
      qp.blocked = true;
      refuse(qp.peer, id, serial, choice);
      schedule(now_ + draw_latency(links_[qp.link], choice, Label::ack_latency), Event::Kind::broken_peer,
               id);
      return;
  }
}

void Network::refuse(QpId responder, QpId requester, std::uint64_t serial, ChoiceSource& choice) {
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::refused;
  h.qp = responder;
  h.peer = requester;
  h.wr = serial;
  happened(h);
  fail(responder, Ending::remote_access, qps_[responder].completed, choice);
}

// The refusal reaches the requester, or it is lost and the requester gets no reply.
void Network::on_refusal(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.state != Qp::State::ready) return;
  if (is_cut(qp.link, opposite(qp.way)) || qp.swallowed) {
    stuck(id, choice);
    return;
  }
  const std::uint64_t serial = qp.delivered;
  if (config_.capabilities.done_means_delivered) complete_until(id, serial);
  fail(id, Ending::remote_access, std::max(serial, qp.completed), choice);
}

Network::Outcome Network::execute(QpId responder_id, QpId requester, std::uint64_t serial, Wr& wr,
                                  ChoiceSource& choice) {
  Qp& responder = qps_[responder_id];
  const bool needs_receive = takes_receive(wr.op, config_.capabilities);
  const bool posted = responder.first_receives != responder.receives.size();
  const bool writes = is_write(wr.op) && wr.length != 0;
  // True: the responder's adapter has not read the posted receive yet.
  const bool late = needs_receive && writes && posted && choice.fires(rates_.receive_late, Label::rnr_delay);
  const bool has_receive = posted && !late;
  const Outcome no_receive = late ? Outcome::receive_late : Outcome::wait_receive;
  if (writes) {
    if (needs_receive && !has_receive && !choice.fires(rates_.rnr_placement, Label::rnr_placement)) {
      return no_receive;
    }
    const Outcome outcome = place_payload(responder_id, requester, serial, wr, choice);
    if (outcome != Outcome::done) return outcome;
  }
  if (needs_receive && !has_receive) return no_receive;
  RemoteKeyId dead = kNoRemoteKey;
  if (wr.op == WorkRequest::Op::send_inv) {
    const Node& node = nodes_[responder.node];
    dead = wr.rkey & 0xffff;
    if (dead >= node.keys.size() || !node.keys[dead].valid || node.keys[dead].rkey != wr.rkey) {
      return Outcome::refused;
    }
  }
  if (needs_receive) {
    // A receive that is too small is not consumed; it is flushed with the others.
    if (!is_write(wr.op) && wr.length > responder.receives[responder.first_receives].bytes) {
      return Outcome::refused;
    }
    std::uint32_t room = 0;
    take_receive(responder, room);
  }
  if (dead != kNoRemoteKey) revoke(responder.node, dead);
  arrived(responder_id, requester, serial, wr);
  return Outcome::done;
}

Network::Outcome Network::place_payload(QpId responder, QpId requester, std::uint64_t serial, Wr& wr,
                                        ChoiceSource& choice) {
  const Key* key = find_key(qps_[responder].node, wr);
  if (key == nullptr) return Outcome::refused;
  if (!wr.torn && wr.length > 1 && choice.fires(rates_.torn_write, Label::torn_write)) {
    wr.torn = true;
    ++stats_.torn;
    const std::uint32_t first = choice.draw(wr.length, Label::torn_range);
    const std::uint32_t last = choice.draw(wr.length, Label::torn_range);
    const std::uint32_t begin = std::min(first, last);
    const std::uint32_t end = std::max(first, last);
    if (begin != end) place(responder, requester, serial, wr, begin, end, *key);
    return Outcome::torn;
  }
  place(responder, requester, serial, wr, 0, wr.length, *key);
  wr.torn = true;
  return Outcome::done;
}

void Network::arrived(QpId responder_id, QpId requester, std::uint64_t serial, Wr& wr) {
  Qp& responder = qps_[responder_id];
  ++stats_.messages;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::executed;
  h.qp = responder_id;
  h.peer = requester;
  h.wr = serial;
  h.op = wr.op;
  h.imm = wr.imm;
  h.length = wr.length;
  h.flag = takes_receive(wr.op, config_.capabilities);
  happened(h);
  if (wr.op == WorkRequest::Op::write) return;
  Pending& pending = report(responder.node, responder_id, event::ImmReceived{responder.key, wr.imm});
  pending.arrival = true;
  pending.serial = responder.arrivals++;
  pending.op = wr.op;
  pending.length = wr.length;
  if (wr.op == WorkRequest::Op::send_inv) {
    pending.event = event::KeyInvalidated{responder.key, wr.rkey};
    return;
  }
  pending.imm = wr.imm;
  if (wr.op == WorkRequest::Op::write_imm) return;
  event::MessageReceived message{responder.key, {}, {}};
  if (wr.op == WorkRequest::Op::send_imm) message.imm = wr.imm;
  pending.event = message;
  pending.payload = wr.payload;
  wr.payload = kNoPayload;
}

void Network::run_local(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  const RemoteKeyId remote_key = wr_at(qp, qp.delivered).rkey;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::executed;
  h.qp = id;
  h.peer = id;
  h.wr = qp.delivered;
  h.local = true;
  happened(h);
  if (remote_key < nodes_[qp.node].keys.size()) revoke(qp.node, remote_key);
  ++qp.delivered;
  schedule_ack(id, choice);
  schedule_delivery(id, 0);
}

void Network::invalidate(NodeId node, ConKey key, RemoteKeyId remote_key, std::uint64_t cookie,
                         ChoiceSource& choice) {
  const QpId id = find_qp(node, key);
  if (id == kNone || qps_[id].state != Qp::State::ready || qps_[id].lost_reported) return;
  if (!config_.capabilities.done_means_delivered) {
    // If completions do not prove delivery, an invalidation does not pass through the send queue: the key is
    // revoked at once.
    revoke(node, remote_key);
    report(node, id, event::ChunkInvalidated{key, cookie, true});
    return;
  }
  Wr wr;
  wr.local_invalidate = true;
  wr.signalled = true;
  wr.rkey = remote_key;
  wr.cookie = cookie;
  push_wr(id, wr, choice);
}

}  // namespace rtrs::sim
