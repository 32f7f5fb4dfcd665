// Handles the requests of a server session. States of a chunk: idle -> (invalidating ->) in service ->
// (answering, while the send queue is full ->) idle.
#include "core/base/assert.hpp"
#include "core/proto/server_session.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

namespace {

ChunkUser user_of(const RequestArrived& in, std::uint32_t incarnation) noexcept {
  ChunkUser user;
  user.key = in.key;
  user.incarnation = incarnation;
  user.generation = in.generation;
  user.direction = in.direction;
  user.has_data = in.data_len > 0;
  user.has_descriptor = in.has_descriptor;
  user.need_invalidate = in.need_invalidate;
  return user;
}

}  // namespace

bool ServerSession::live(const ChunkUser& user) const noexcept {
  const ServerPath& path = state_.paths[user.key.path];
  return path.state == PathState::connected && path.incarnation == user.incarnation;
}

bool ServerSession::will_wait_for_chunk(const RequestArrived& in) const noexcept {
  const ServerPath* path = find(in.key);
  const ServerChunk& chunk = state_.chunks[in.chunk];
  return path != nullptr && path->state == PathState::connected && chunk.state != ServerChunk::State::idle &&
         gate_refusal(chunk, user_of(in, path->incarnation)) == Reason::none;
}

void ServerSession::on(const RequestArrived& in, ServerActions& out) noexcept {
  ServerPath* path = current(in.key);
  if (path == nullptr || path->state == PathState::closing) return;
  if (path->state != PathState::connected) {
    close_path(in.key.path, Reason::protocol_violation, out);
    return;
  }
  path->heartbeat.received();
  // The receive is posted before the response, because the peer may send its next request as soon as the
  // response arrives.
  post_receive(in.key, out);
  const ChunkUser user = user_of(in, path->incarnation);
  if (state_.chunks[in.chunk].state == ServerChunk::State::idle) {
    start(in.chunk, user, false, out);
  } else {
    gate(in.chunk, user, out);
  }
}

Reason ServerSession::gate_refusal(const ServerChunk& chunk, const ChunkUser& user) const noexcept {
  const auto same_incarnation = [&user](const ChunkUser& other) {
    return other.key.path == user.key.path && other.incarnation == user.incarnation;
  };
  if (same_incarnation(chunk.user)) return Reason::protocol_violation;
  if (chunk.has_parked && same_incarnation(chunk.parked)) return Reason::protocol_violation;
  // The read still fills the chunk and would overwrite the data of the write. A replay never leads to this,
  // because it repeats the same request. The cause is a client that abandoned the read and reuses its permit,
  // such as a kernel client without any path.
  const bool smashed = chunk.user.direction == Direction::read && chunk.user.has_data &&
                       user.direction == Direction::write && user.has_data;
  return smashed ? Reason::rejected_busy : Reason::none;
}

// Queues a request behind the chunk's user from another path incarnation, in place of a request that already
// waits there. A client without fences replays a request over one path after another, faster than the server
// detects their loss. At most one of these paths still has a client that waits for the response. If the
// replaced request came from that path, the client resends the request when the path ends.
void ServerSession::gate(std::uint16_t index, const ChunkUser& user, ServerActions& out) noexcept {
  ServerChunk& chunk = state_.chunks[index];
  const Reason refusal = gate_refusal(chunk, user);
  if (refusal != Reason::none) return close_path(user.key.path, refusal, out);
  if (chunk.has_parked && live(chunk.parked)) close_path(chunk.parked.key.path, Reason::superseded, out);
  chunk.parked = user;
  chunk.has_parked = true;
  ++counters_.gated;
}

void ServerSession::start(std::uint16_t index, const ChunkUser& user, bool parked,
                          ServerActions& out) noexcept {
  ServerChunk& chunk = state_.chunks[index];
  RTRS_ASSERT(chunk.state == ServerChunk::State::idle);
  chunk.user = user;
  chunk.from_park = parked;
  ++state_.paths[user.key.path].in_use;
  if (!renews_key(user)) {
    deliver(index, out);
    return;
  }
  chunk.state = ServerChunk::State::invalidating;
  out.push(InvalidateChunk{user.key, index});
}

void ServerSession::deliver(std::uint16_t index, ServerActions& out) noexcept {
  ServerChunk& chunk = state_.chunks[index];
  chunk.state = ServerChunk::State::in_service;
  ++chunk.serial;
  out.push(Deliver{chunk.user.key, index, chunk.serial, chunk.from_park});
}

void ServerSession::on(const ChunkInvalidated& in, ServerActions& out) noexcept {
  if (current(in.key) == nullptr) return;
  const ServerChunk& chunk = state_.chunks[in.chunk];
  if (chunk.state != ServerChunk::State::invalidating || chunk.user.key != in.key) {
    ++counters_.stale_events;
    return;
  }
  // If the key was not invalidated, the peer could change the request during service.
  if (!in.ok) close_path(in.key.path, Reason::transport_error, out);
  if (live(chunk.user)) {
    deliver(in.chunk, out);
  } else {
    free_chunk(in.chunk, out);
  }
}

void ServerSession::on(const Responded& in, ServerActions& out) noexcept {
  ServerChunk& chunk = state_.chunks[in.chunk];
  RTRS_ASSERT(chunk.state == ServerChunk::State::in_service && chunk.serial == in.serial);
  if (!live(chunk.user)) {
    ++counters_.dropped_responses;
    free_chunk(in.chunk, out);
    return;
  }
  chunk.state = ServerChunk::State::answering;
  chunk.peer_errno = in.peer_errno;
  const ServerCon& con = state_.paths[chunk.user.key.path].cons[chunk.user.key.con];
  if (con.first_waiting == kNoChunk && con.queue.has_room(answer_entries(chunk))) {
    answer(in.chunk, out);
  } else {
    wait(in.chunk);
  }
}

namespace {

bool writes_data(const ChunkUser& user, std::uint16_t peer_errno) noexcept {
  return user.direction == Direction::read && user.has_descriptor && user.has_data && peer_errno == 0;
}
}  // namespace

bool ServerSession::invalidates(const ChunkUser& user) const noexcept {
  const bool keys_stay = has(state_.paths[user.key.path].extensions, wire::Extensions::keys_stay);
  return config_.send_invalidate && !keys_stay && user.need_invalidate && user.has_descriptor;
}

// True if the client requested the extension and no SEND_WITH_INV must be sent between data and response. A
// kernel client never requests the extension; a kernel client before 6.12 hangs on a READ without
// SEND_WITH_INV.
bool ServerSession::may_join_data(const ChunkUser& user) const noexcept {
  const wire::Extensions agreed = state_.paths[user.key.path].extensions;
  return has(agreed, wire::Extensions::data_with_answer) && user.direction == Direction::read &&
         !invalidates(user);
}

// False if the write of the data is the response, because only a SEND carries a fresh key. The key of the
// READ's chunk then stays valid. A client that writes to that chunk during the READ changes only the data
// that it reads itself.
bool ServerSession::renews_key(const ChunkUser& user) const noexcept {
  return config_.always_invalidate && !may_join_data(user);
}

bool ServerSession::joins_data(const ServerChunk& chunk) const noexcept {
  return may_join_data(chunk.user) && writes_data(chunk.user, chunk.peer_errno);
}

unsigned ServerSession::answer_entries(const ServerChunk& chunk) const noexcept {
  const bool data = writes_data(chunk.user, chunk.peer_errno) && !joins_data(chunk);
  return 1U + (data ? 1U : 0U) + (invalidates(chunk.user) ? 1U : 0U);
}

void ServerSession::answer(std::uint16_t index, ServerActions& out) noexcept {
  const ServerChunk& chunk = state_.chunks[index];
  const ChunkUser& user = chunk.user;
  ServerPath& path = state_.paths[user.key.path];
  const bool tagged = has(path.extensions, wire::Extensions::generation);
  const std::uint32_t id = tagged ? wire::tagged_msg_id(config_.queue_depth, index, user.generation) : index;
  PostResponse response{};
  response.key = user.key;
  response.chunk = index;
  response.write_data = writes_data(user, chunk.peer_errno);
  response.send_invalidate = invalidates(user);
  response.fresh_key = renews_key(user);
  response.data_with_answer = joins_data(chunk);
  // The type tells the peer whether an invalidation was sent first; the peer uses this to count its receives
  // and keys.
  response.imm = wire::encode_io_rsp(
      response.send_invalidate ? wire::ImmType::io_rsp_w_inv : wire::ImmType::io_rsp, id, chunk.peer_errno);
  response.cookie = path.cons[user.key.con].queue.take(answer_entries(chunk));
  out.push(response);
  free_chunk(index, out);
}

void ServerSession::wait(std::uint16_t index) noexcept {
  ServerChunk& chunk = state_.chunks[index];
  ServerPath& path = state_.paths[chunk.user.key.path];
  ServerCon& con = path.cons[chunk.user.key.con];
  chunk.next_waiting = kNoChunk;
  if (con.first_waiting == kNoChunk) {
    con.first_waiting = index;
  } else {
    state_.chunks[con.last_waiting].next_waiting = index;
  }
  con.last_waiting = index;
  ++path.waiting;
  ++state_.waiting;
}

unsigned ServerSession::drain_waiting(std::uint16_t index, unsigned cid, unsigned budget,
                                      ServerActions& out) noexcept {
  ServerPath& path = state_.paths[index];
  // Freeing the last chunk of a closing path also frees the path and its connections.
  while (budget > 0 && cid < path.cons.size() && path.cons[cid].first_waiting != kNoChunk) {
    ServerCon& con = path.cons[cid];
    const std::uint16_t first = con.first_waiting;
    ServerChunk& chunk = state_.chunks[first];
    const bool connected = path.state == PathState::connected;
    if (connected && !con.queue.has_room(answer_entries(chunk))) break;
    con.first_waiting = chunk.next_waiting;
    if (con.first_waiting == kNoChunk) con.last_waiting = kNoChunk;
    chunk.next_waiting = kNoChunk;
    --path.waiting;
    --state_.waiting;
    --budget;
    if (connected) {
      answer(first, out);
    } else {
      if (chunk.state == ServerChunk::State::answering) ++counters_.dropped_responses;
      free_chunk(first, out);
    }
  }
  return budget;
}

void ServerSession::free_chunk(std::uint16_t index, ServerActions& out) noexcept {
  ServerChunk& chunk = state_.chunks[index];
  const std::uint16_t path = chunk.user.key.path;
  RTRS_ASSERT(state_.paths[path].in_use > 0 && state_.paths[path].incarnation == chunk.user.incarnation);
  const ChunkUser parked = chunk.parked;
  const bool has_parked = chunk.has_parked;
  const std::uint16_t serial = chunk.serial;
  chunk = ServerChunk{};
  chunk.serial = serial;
  --state_.paths[path].in_use;
  finish_path(path, out);
  if (has_parked && live(parked)) start(index, parked, true, out);
}

}  // namespace rtrs
