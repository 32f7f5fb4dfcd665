// Life cycle of requests, from Submitted to Complete.
#include <algorithm>

#include "core/proto/client_session.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

void ClientSession::enqueue(std::uint16_t id, Nanos now) noexcept {
  Permit& permit = permits_[id];
  permit.state = Permit::State::queued;
  permit.since = now;
  permit.next = kNoPermit;
  if (queued_++ == 0) {
    queue_head_ = id;
  } else {
    permits_[queue_tail_].next = id;
  }
  queue_tail_ = id;
}

std::uint16_t ClientSession::dequeue() noexcept {
  RTRS_ASSERT(queued_ > 0);
  const std::uint16_t id = queue_head_;
  queue_head_ = permits_[id].next;
  if (--queued_ == 0) queue_head_ = queue_tail_ = kNoPermit;
  return id;
}

void ClientSession::on(const Submitted& in, ClientActions& out) noexcept {
  RTRS_ASSERT(in.permit != kNoPermit && in.permit == permits_.next());
  permits_.take(in.permit);
  Permit& permit = permits_[in.permit];
  const auto generation = static_cast<std::uint8_t>(permit.generation + 1);
  permit = Permit{};
  permit.generation = generation;
  permit.state = Permit::State::queued;
  permit.data_len = in.data_len;
  permit.usr_len = in.usr_len;
  permit.direction = in.direction;
  permit.service = in.service;
  permit.affinity = in.affinity;
  permit.offers_invalidation = in.offers_invalidation;
  if (closing_) return complete(in.permit, Errc::session_closed, 0, out);
  if (in.data_len > max_io_size_ || in.usr_len + wire::kMaxIoHeaderBytes > max_hdr_size_)
    return complete(in.permit, Errc::too_large, 0, out);
  if (connected_ == 0 && config_.queue_timeout == 0) return complete(in.permit, Errc::no_path, 0, out);
  if (queued_ > 0 || holds_new_requests() || !send(in.permit, in.now, out)) enqueue(in.permit, in.now);
}

bool ClientSession::send(std::uint16_t id, Nanos now, ClientActions& out) noexcept {
  Permit& permit = permits_[id];
  unsigned cursor = cursor_;
  const unsigned index =
      choose_path(paths_, config_.policy, connected_, permit.service, permit.affinity, cursor);
  if (index == kNoPath) return false;
  cursor_ = cursor;
  ClientPath& path = paths_[index];
  permit.state = Permit::State::in_flight;
  permit.since = now;
  permit.path = static_cast<std::uint8_t>(index);
  permit.con = connection_for(path, permit.service, permit.affinity);
  permit.epoch = path.epoch();
  permit.invalidated = false;
  answers_due_.at = std::min(answers_due_.at, overdue_at(permit));
  if (permit.first_sent.at == kNever) permit.first_sent.at = now;
  if (permit.failed_from != Permit::kNowhere) {
    // A replay is a new use of the permit on the wire: a response to the first use must not complete it.
    ++permit.generation;
    out.push(FailedOver{id, permit.failed_from, static_cast<std::uint16_t>(index), permit.proven});
    permit.failed_from = Permit::kNowhere;
  }
  path.request_sent(permit.con);
  out.push(PostRequest{path.key(permit.con),
                       wire::encode_io_req(queue_depth_, id, permit.data_len + permit.usr_len), id,
                       path.has_generations() ? permit.generation : std::uint8_t{0},
                       permit.offers_invalidation, path.take(permit.con)});
  return true;
}

void ClientSession::complete(std::uint16_t id, Errc result, std::uint16_t peer_errno,
                             ClientActions& out) noexcept {
  permits_.put(id);
  out.push(Complete{id, result, peer_errno});
}

// Sends the waiting requests in order, in bounded batches per step.
void ClientSession::pump(Nanos now, ClientActions& out) noexcept {
  unsigned budget = kBatch;
  pump_ = !answer_overdue(budget, out) || !fail_held(now, budget, out);
  if (pump_ || closing_ || holds_new_requests()) return;
  while (queued_ > 0 && connected_ > 0) {
    if (budget == 0) {
      pump_ = true;
      return;
    }
    const std::uint16_t id = queue_head_;
    const std::uint16_t next = permits_[id].next;
    if (!send(id, now, out)) return;
    --budget;
    queue_head_ = next;
    if (--queued_ == 0) queue_head_ = queue_tail_ = kNoPermit;
  }
}

void ClientSession::finish_step(Nanos now, ClientActions& out) noexcept {
  drive_fences(now, out);
  pump(now, out);
  lingering_.possible = lingering_.possible && any_lingers();
  if (!permits_exhausted()) {
    exhausted_since_ = kNever;
  } else if (exhausted_since_ == kNever) {
    exhausted_since_ = now;
  }
  pump_ = pump_ || giving_way_ || batches_.left;
  if (!closing_ || pump_) return;
  if (permits_.used() == 0) closing_paths_ = true;
  if (!closing_paths_) return;
  close_deadline_ = kNever;
  // Handles one path per step, because ending a path may take an action for each of its connections.
  for (unsigned index = 0; index < paths_.size(); ++index) {
    const PathState state = paths_[index].state();
    if (state == PathState::waiting) {
      paths_[index].settle(PathState::closed, Reason::session_closed);
      report(index, 0, out);
    } else if (state == PathState::connecting || state == PathState::connected) {
      paths_[index].set_goal(ClientPath::Goal::close);
      lose_path(index, now, Reason::session_closed, 0, out);
      pump_ = true;
      return;
    }
  }
  end_if_drained(out);
}

void ClientSession::end_if_drained(ClientActions& out) noexcept {
  const bool drained = std::all_of(paths_.begin(), paths_.end(), [](const ClientPath& path) {
    return path.state() == PathState::closed || path.state() == PathState::absent;
  });
  if (!drained || permits_.used() != 0 || ended_) return;
  ended_ = true;
  answers_due_ = {};
  out.push(EndSession{Reason::session_closed});
}

Nanos ClientSession::path_wait_ends(Nanos since) const noexcept {
  const Nanos blocked = std::min(connected_ > 0 ? kNever : down_since_, exhausted_since_);
  if (blocked == kNever || config_.queue_timeout == kNever || closing_) return kNever;
  return later(std::max(since, blocked), config_.queue_timeout);
}

void ClientSession::response(const ConKey& key, Nanos now, std::uint32_t imm, bool keyed,
                             ClientActions& out) noexcept {
  ClientPath& path = paths_[key.path];
  const wire::IoRspImm rsp = wire::decode_io_rsp(imm);
  const wire::TaggedMsgId id = path.has_generations() ? wire::split_msg_id(queue_depth_, rsp.msg_id)
                                                      : wire::TaggedMsgId{rsp.msg_id, 0, true};
  if (id.buf_id >= permits_.depth()) return violation(key.path, now, out);
  Permit& permit = permits_[id.buf_id];
  const bool waits =
      permit.state == Permit::State::in_flight && permit.path == key.path && permit.epoch == key.epoch;
  if (!waits || (path.has_generations() && !id.answers(queue_depth_, permit.generation))) {
    ++counters_.stale_responses;
    return;
  }
  // Two violations: the response arrived on a different connection than its request was sent on, or it claims
  // an invalidation that did not happen.
  if (permit.con != key.con || (rsp.invalidated && !permit.invalidated)) return violation(key.path, now, out);
  const bool has_key = keyed || !path.fresh_keys();
  if (!has_key && (rsp.invalidated || permit.direction != Direction::read))
    return violation(key.path, now, out);
  path.request_ended(permit.con);
  alive_at_ = std::max(alive_at_, permit.since);
  complete(static_cast<std::uint16_t>(id.buf_id), rsp.error == 0 ? Errc::ok : Errc::peer_error,
           static_cast<std::uint16_t>(rsp.error), out);
}

void ClientSession::on(const ImmReceived& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr || !path->connected()) return;
  path->received(in.key.con);
  if (config_.imm_consumes_receive) out.push(PostReceive{in.key, 1, path->receive_kind(in.key.con)});
  switch (wire::imm_type(in.imm)) {
    case wire::ImmType::io_rsp:
    case wire::ImmType::io_rsp_w_inv:
      if (path->fresh_keys() && !path->reads_may_leave_keys()) {
        violation(in.key.path, in.now, out);  // if fresh keys were agreed, each response must carry a key
      } else {
        response(in.key, in.now, in.imm, false, out);
      }
      break;
    case wire::ImmType::hb_msg:
      path->heartbeat_message(out);
      break;
    case wire::ImmType::hb_ack:
      path->heartbeat_acknowledged(in.key.con, in.now);
      if (in.key.con == 0) alive_at_ = std::max(alive_at_, path->heartbeat_sent());
      break;
    default:
      violation(in.key.path, in.now, out);
  }
  if (queued_ > 0 || closing_ || !path->connected()) finish_step(in.now, out);
}

void ClientSession::on(const KeyedResponseReceived& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr || !path->connected()) return;
  path->received(in.key.con);
  const wire::ImmType type = wire::imm_type(in.imm);
  const bool is_response = type == wire::ImmType::io_rsp || type == wire::ImmType::io_rsp_w_inv;
  const std::uint32_t msg_id = wire::decode_io_rsp(in.imm).msg_id;
  const std::uint32_t buf_id =
      path->has_generations() ? wire::split_msg_id(queue_depth_, msg_id).buf_id : msg_id;
  const bool waits = buf_id < permits_.depth() && permits_[buf_id].state == Permit::State::in_flight &&
                     permits_[buf_id].path == in.key.path && permits_[buf_id].epoch == in.key.epoch;
  if (!path->fresh_keys() || !is_response || buf_id != in.buf_id || !waits) {
    violation(in.key.path, in.now, out);
    return finish_step(in.now, out);
  }
  out.push(PostReceive{in.key, 1, ReceiveKind::message});
  // The key is stored before the permit becomes free, because the permit's next user needs it (protocol
  // section 11, invariant 16).
  out.push(StoreKey{in.key.path, in.buf_id, in.rkey});
  response(in.key, in.now, in.imm, true, out);
  if (queued_ > 0 || closing_ || !path->connected()) finish_step(in.now, out);
}

void ClientSession::on(const KeyInvalidated& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr || !path->connected()) return;
  path->received(in.key.con);
  out.push(PostReceive{in.key, 1, path->receive_kind(in.key.con)});
  const bool ours = in.permit < permits_.depth() && permits_[in.permit].state == Permit::State::in_flight &&
                    permits_[in.permit].path == in.key.path && permits_[in.permit].offers_invalidation;
  if (ours) {
    permits_[in.permit].invalidated = true;
  } else {
    violation(in.key.path, in.now, out);
    finish_step(in.now, out);
  }
}

void ClientSession::on(const SendDone& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr) return;
  if (path->state() != PathState::connected && path->state() != PathState::connecting) return;
  if (!path->retire(in.key, in.cookie)) {
    lose_path(in.key.path, in.now, Reason::transport_error, 0, out);
    return finish_step(in.now, out);
  }
  if (path->connected()) path->send_owed_heartbeats(in.key.con, out);
  finish_step(in.now, out);
}

// Linear in the depth, so that a simulation with few permits can call it after every step.
const char* ClientSession::broken_invariant() const noexcept {
  if (paths_.size() < kPathsInside || fences_.size() != paths_.size()) return "each path has a fence";
  unsigned connected = 0;
  for (const ClientPath& path : paths_) connected += path.connected() ? 1 : 0;
  if (connected != connected_) return "connected paths are counted right";
  std::array<unsigned, kMaxPaths> inflight{};
  unsigned used = 0;
  unsigned queued = 0;
  unsigned overdue = 0;
  unsigned given_up = 0;
  for (const Permit& permit : permits_) {
    if (permit.overdue) ++overdue;
    if (permit.state == Permit::State::free) continue;
    ++used;
    if (permit.state == Permit::State::abandoned) ++given_up;
    if (permit.state == Permit::State::queued) ++queued;
    const bool held = permit.state == Permit::State::fenced || permit.state == Permit::State::abandoned;
    const bool placed = held || permit.state == Permit::State::in_flight;
    if (placed && permit.path >= paths_.size()) return "a request that was sent names a path that exists";
    if (held && !permit.overdue && fences_[permit.path].state == Fence::State::idle)
      return "a held request has a fence that will release it";
    if (permit.state != Permit::State::in_flight) continue;
    ++inflight[permit.path];
    const ClientPath& path = paths_[permit.path];
    if (permit.epoch != path.epoch())
      return "a request in flight belongs to the current incarnation of its path";
    if (path.state() != PathState::connected && path.state() != PathState::draining &&
        path.state() != PathState::closing)
      return "requests are in flight only on paths that are connected or draining";
  }
  if (given_up != permits_.given_up()) return "permits that are given up are counted right";
  if (permits_exhausted() != (exhausted_since_ != kNever)) return "the lack of permits is timed";
  if (used != permits_.used()) return "used permits are counted right";
  if (overdue != overdue_) return "overdue requests are counted right";
  if (answers_due_.at > first_answer_deadline()) return "no request is overdue before the timer is due";
  if (queued != queued_) return "queued requests are counted right";
  for (unsigned index = 0; index < paths_.size(); ++index)
    if (inflight[index] != paths_[index].inflight() || !paths_[index].counts_add_up())
      return "requests in flight are counted right";
  return nullptr;
}

}  // namespace rtrs
