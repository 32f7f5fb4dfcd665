#include "core/proto/server_session.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/base/fingerprint.hpp"
#include "core/wire/imm.hpp"

namespace rtrs {

ServerSession::ServerSession(const ServerConfig& config, std::uint16_t index) noexcept : config_(config) {
  RTRS_ASSERT(config.queue_depth >= 1 && config.queue_depth <= kMaxPermits);
  RTRS_ASSERT(index < kMaxSessions);
  state_.index = index;
  state_.paths.resize(kPathsInside);
  state_.chunks.resize(config.queue_depth);
}

ConKey ServerSession::key_of(unsigned path, unsigned con) const noexcept {
  return ConKey{static_cast<std::uint16_t>(path), static_cast<std::uint16_t>(con),
                state_.paths[path].cons[con].epoch, state_.index};
}

const ServerPath* ServerSession::find(ConKey key) const noexcept {
  if (key.session != state_.index || key.path >= state_.paths.size()) return nullptr;
  const ServerPath& path = state_.paths[key.path];
  const bool known = key.epoch != 0 && key.con < path.cons.size() && path.cons[key.con].epoch == key.epoch;
  return known ? &path : nullptr;
}

ServerPath* ServerSession::current(ConKey key) noexcept {
  if (find(key) != nullptr) return &state_.paths[key.path];
  ++counters_.stale_events;
  return nullptr;
}

wire::Extensions ServerSession::granted(ConKey key) const noexcept {
  const ServerPath* path = find(key);
  return path == nullptr ? wire::Extensions::none : path->extensions;
}

void ServerSession::on(const ConnectionLost& in, ServerActions& out) noexcept {
  if (current(in.key) != nullptr) close_path(in.key.path, in.reason, out);
}

void ServerSession::on(const ConnectionClosed& in, ServerActions& out) noexcept {
  ServerPath* path = current(in.key);
  if (path == nullptr) return;
  const std::uint16_t index = in.key.path;
  path->cons[in.key.con].epoch = 0;
  --path->open_cons;
  close_path(index, Reason::transport_error, out);
  // The fabric no longer reports invalidations of a closed connection. The chunks that wait for such a report
  // are freed in batches, like waiting responses.
  for (std::size_t i = 0; config_.always_invalidate && i < state_.chunks.size(); ++i) {
    const ServerChunk& chunk = state_.chunks[i];
    if (chunk.state == ServerChunk::State::invalidating && chunk.user.key == in.key) {
      wait(static_cast<std::uint16_t>(i));
    }
  }
  finish_path(index, out);
}

void ServerSession::on(const PeerBroke& in, ServerActions& out) noexcept {
  if (current(in.key) != nullptr) close_path(in.key.path, Reason::protocol_violation, out);
}

void ServerSession::on(const PathDisconnectRequested& in, ServerActions& out) noexcept {
  if (in.path < state_.paths.size()) close_path(in.path, Reason::requested, out);
}

void ServerSession::on(const CloseRequested&, ServerActions& out) noexcept {
  state_.closing = true;
  end_if_empty(Reason::session_closed, out);
}

void ServerSession::on(const ImmReceived& in, ServerActions& out) noexcept {
  ServerPath* path = current(in.key);
  if (path == nullptr || path->state == PathState::closing) return;
  const wire::ImmType type = wire::imm_type(in.imm);
  const bool heartbeat = type == wire::ImmType::hb_msg || type == wire::ImmType::hb_ack;
  if (path->state != PathState::connected || !heartbeat) {
    close_path(in.key.path, Reason::protocol_violation, out);
    return;
  }
  path->heartbeat.received();
  post_receive(in.key, out);
  if (type != wire::ImmType::hb_msg) return;
  const bool probe = in.key.con != 0 && has(path->extensions, wire::Extensions::probe);
  (probe ? path->cons[in.key.con].owes_ack : path->owes_ack) = true;
  send_owed(*path, probe ? in.key.con : 0U, out);
}

void ServerSession::on(const SendDone& in, ServerActions& out) noexcept {
  ServerPath* path = current(in.key);
  if (path == nullptr) return;
  ServerCon& con = path->cons[in.key.con];
  if (!con.queue.retire(in.cookie)) {
    close_path(in.key.path, Reason::transport_error, out);
    return;
  }
  con.probe.received();
  con.probe.answered();
  if (path->state != PathState::connected) return;
  send_owed(*path, in.key.con, out);
  if (in.key.con == 0) answer_fences(out);
  drain_waiting(in.key.path, in.key.con, kBatch, out);
}

// Ends one path per step, because ending all connections of several paths could exceed the action list.
void ServerSession::on(const DeadlineReached& in, ServerActions& out) noexcept {
  for (std::uint16_t i = 0; i < state_.paths.size(); ++i) {
    const ServerPath& path = state_.paths[i];
    if (path.handshake_deadline <= in.now) {
      close_path(i, Reason::handshake_timeout, out);
      return;
    }
    if (path.heartbeat.deadline() <= in.now && !tick(i, in.now, out)) return;
  }
}

bool ServerSession::tick(std::uint16_t index, Nanos now, ServerActions& out) noexcept {
  ServerPath& path = state_.paths[index];
  switch (path.heartbeat.on_tick(now, config_.heartbeat)) {
    case Heartbeat::Tick::nothing:
      break;
    case Heartbeat::Tick::send:
      path.owes_heartbeat = true;
      break;
    case Heartbeat::Tick::dead:
      close_path(index, Reason::heartbeat_lost, out);
      return false;
  }
  if (!probe_deliveries(path)) {
    close_path(index, Reason::connection_silent, out);
    return false;
  }
  const std::size_t before = out.size();
  set_batch(path, 0);
  send_all_owed(path, out);
  return out.size() - before <= 3;
}

void ServerSession::send_all_owed(ServerPath& path, ServerActions& out) noexcept {
  const std::size_t full = out.size() + kConsPerStep;
  unsigned con = path.batch.next;
  for (; con < path.cons.size() && out.size() < full; ++con) send_owed(path, con, out);
  set_batch(path, con);
}

void ServerSession::set_batch(ServerPath& path, std::size_t next) noexcept {
  const bool was_left = path.batch.next != 0;
  path.batch.next = static_cast<std::uint16_t>(next < path.cons.size() ? next : 0);
  const bool is_left = path.batch.next != 0;
  state_.batches.paths = static_cast<std::uint16_t>(state_.batches.paths + is_left - was_left);
}

// Continues the batch of one path. Only one path is handled per step.
void ServerSession::continue_batch(Nanos now, ServerActions& out) noexcept {
  for (std::uint16_t i = 0; i < state_.paths.size(); ++i) {
    ServerPath& path = state_.paths[i];
    if (path.batch.next == 0) continue;
    if (path.state == PathState::connecting) return bring_up(i, now, out);
    return path.state == PathState::connected ? send_all_owed(path, out) : end_connections(i, out);
  }
}

// Probes the connections of a client without the probe extension. A client with the extension probes both
// directions itself. Returns false if a connection is dead.
bool ServerSession::probe_deliveries(ServerPath& path) const noexcept {
  if (!config_.probe_deliveries || has(path.extensions, wire::Extensions::probe)) return true;
  const auto outstanding = [&](const ServerCon& con) { return path.in_use > 0 || !con.queue.all_done(); };
  for (unsigned con = 0; con < path.cons.size(); ++con)
    if (path.cons[con].probe.is_dead(outstanding(path.cons[con]), config_.heartbeat)) return false;
  for (unsigned con = 0; con < path.cons.size(); ++con)
    path.cons[con].probe.on_tick(outstanding(path.cons[con]));
  return true;
}

void ServerSession::on(const Continued& in, ServerActions& out) noexcept {
  if (state_.batches.paths != 0) return continue_batch(in.now, out);
  if (state_.closing) {
    for (std::uint16_t i = 0; i < state_.paths.size(); ++i) {
      if (!state_.paths[i].open()) continue;
      close_path(i, Reason::session_closed, out);
      return;
    }
  }
  unsigned budget = kBatch;
  for (std::uint16_t i = 0; i < state_.paths.size() && budget > 0; ++i) {
    for (unsigned con = 0; con < state_.paths[i].cons.size() && budget > 0; ++con) {
      budget = drain_waiting(i, con, budget, out);
    }
  }
}

bool ServerSession::wants_to_continue() const noexcept {
  if (state_.batches.paths != 0) return true;
  if (state_.closing && std::any_of(state_.paths.begin(), state_.paths.end(),
                                    [](const ServerPath& path) { return path.open(); })) {
    return true;
  }
  if (state_.waiting == 0) return false;
  for (const ServerPath& path : state_.paths) {
    if (path.waiting == 0) continue;
    for (const ServerCon& con : path.cons) {
      if (con.first_waiting == kNoChunk) continue;
      if (path.state != PathState::connected) return true;
      if (con.queue.has_room(answer_entries(state_.chunks[con.first_waiting]))) return true;
    }
  }
  return false;
}

Nanos ServerSession::next_deadline() const noexcept {
  Nanos next = kNever;
  for (const ServerPath& path : state_.paths) {
    next = std::min({next, path.handshake_deadline, path.heartbeat.deadline()});
  }
  return next;
}

std::uint64_t ServerSession::fingerprint() const noexcept {
  Fingerprint hash;
  hash.add(state_);
  return hash.value();
}

// Closes every connection once, in batches. Requests of the path that are still in service get no reply. The
// slot stays taken until storage has completed these requests, so that "no such path" proves that no request
// is still executing.
void ServerSession::close_path(std::uint16_t index, Reason reason, ServerActions& out) noexcept {
  ServerPath& path = state_.paths[index];
  if (!path.open()) return;
  const bool was_connected = path.state == PathState::connected;
  path.state = PathState::closing;
  path.reason = reason;
  path.owes_ack = path.owes_heartbeat = false;
  path.handshake_deadline = kNever;
  path.heartbeat.stop();
  for (ServerCon& con : path.cons) con.owes_ack = false;
  set_batch(path, 0);
  end_connections(index, out);
  for (std::size_t i = state_.fences.size(); i-- > 0;) {
    if (state_.fences[i].asker.path == index) state_.fences.erase_at(i);
  }
  out.push(PathChanged{index, PathState::closing, reason, 0, 0, 0});
  if (was_connected && --state_.connected == 0) out.push(LinkChanged{false});
}

void ServerSession::end_connections(std::uint16_t index, ServerActions& out) noexcept {
  ServerPath& path = state_.paths[index];
  unsigned budget = kConsPerStep;
  unsigned con = path.batch.next;
  for (; con < path.cons.size() && budget > 0; ++con) {
    if (path.cons[con].epoch == 0) continue;
    out.push(Disconnect{key_of(index, con), path.reason});
    --budget;
  }
  set_batch(path, con);
}

void ServerSession::finish_path(std::uint16_t index, ServerActions& out) noexcept {
  ServerPath& path = state_.paths[index];
  if (!path.drained()) return;
  const Reason reason = path.reason;
  RTRS_ASSERT(path.waiting == 0);
  set_batch(path, 0);
  path.cons.reset();
  path = ServerPath{};
  out.push(ReleasePath{index});
  out.push(PathChanged{index, PathState::absent, reason, 0, 0, 0});
  for (PendingFence& fence : state_.fences) {
    if (fence.target == index) fence.target = kMaxPaths;
  }
  answer_fences(out);
  end_if_empty(reason, out);
}

void ServerSession::end_if_empty(Reason reason, ServerActions& out) noexcept {
  const bool empty = std::all_of(state_.paths.begin(), state_.paths.end(),
                                 [](const ServerPath& path) { return path.state == PathState::absent; });
  if (!empty || state_.ended) return;
  state_.ended = true;
  out.push(EndSession{state_.closing ? Reason::session_closed : reason});
}

// Posts a new receive in place of the consumed one.
void ServerSession::post_receive(ConKey key, ServerActions& out) const noexcept {
  if (!config_.imm_consumes_receive) return;
  out.push(PostReceive{key, 1, key.con == 0 ? ReceiveKind::message : ReceiveKind::empty});
}

void ServerSession::send_owed(ServerPath& path, unsigned cid, ServerActions& out) noexcept {
  ServerCon& con = path.cons[cid];
  const auto index = static_cast<unsigned>(&path - state_.paths.data());
  const auto send = [&](bool& owed, wire::ImmType type) {
    if (!owed || !con.queue.has_heartbeat_room()) return;
    owed = false;
    out.push(PostImm{key_of(index, cid), wire::encode_hb(type), con.queue.take(1)});
  };
  if (con.probe.owed() && con.queue.has_heartbeat_room()) {
    con.probe.sent();
    out.push(ProbeDelivery{key_of(index, cid), con.queue.take_signalled()});
  }
  if (cid != 0) return send(con.owes_ack, wire::ImmType::hb_ack);
  send(path.owes_ack, wire::ImmType::hb_ack);
  send(path.owes_heartbeat, wire::ImmType::hb_msg);
}

}  // namespace rtrs
