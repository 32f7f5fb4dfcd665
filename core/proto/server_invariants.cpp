#include "core/proto/server_invariants.hpp"

#include <algorithm>
#include <array>

namespace rtrs {

namespace {

// True if `deadline` is set or no limit applies.
bool is_timed(Nanos deadline, Nanos limit) noexcept {
  return deadline != kNever || limit == kNever;
}

const char* broken_in_path(const ServerPath& path, const ServerConfig& config) noexcept {
  const auto open =
      std::count_if(path.cons.begin(), path.cons.end(), [](const ServerCon& con) { return con.epoch != 0; });
  if (open != path.open_cons) return "open connections are counted right";
  switch (path.state) {
    case PathState::absent:
      return path.in_use + path.waiting + path.cons.size() == 0 ? nullptr : "an absent path holds nothing";
    case PathState::connecting:
      return is_timed(path.handshake_deadline, config.handshake_timeout)
                 ? nullptr
                 : "a path that connects has a deadline";
    case PathState::connected:
      if (!path.complete()) return "a connected path has all its connections";
      return is_timed(path.heartbeat.deadline(), config.heartbeat.interval)
                 ? nullptr
                 : "a connected path has a heartbeat";
    case PathState::closing:
      return path.drained() ? "a drained path is released" : nullptr;
    default:
      return "a path of a server is absent, connecting, connected or closing";
  }
}

// Checks, in one pass, the number of chunks in use of every path.
template <class State>
const char* broken_in_users(const State& state) noexcept {
  std::array<unsigned, kMaxPaths> users{};
  for (const ServerChunk& chunk : state.chunks) {
    if (chunk.state == ServerChunk::State::idle) {
      if (chunk.has_parked) return "a request waits only for a chunk that is used";
      continue;
    }
    const unsigned index = chunk.user.key.path;
    if (index >= state.paths.size()) return "a used chunk belongs to an existing path";
    if (chunk.user.incarnation != state.paths[index].incarnation)
      return "a used chunk belongs to an existing path";
    ++users[index];
  }
  for (unsigned index = 0; index < state.paths.size(); ++index)
    if (users[index] != state.paths[index].in_use) return "chunks in use are counted right";
  return nullptr;
}

// Checks the lists of one path's responses that wait for room.
template <class State>
const char* broken_in_waiting(const State& state, const ServerPath& path) noexcept {
  unsigned waiting = 0;
  for (const ServerCon& con : path.cons) {
    for (std::uint16_t at = con.first_waiting; at != kNoChunk; at = state.chunks[at].next_waiting) {
      if (at >= state.chunks.size()) return "a list of waiting answers names chunks that exist";
      if (++waiting > state.chunks.size()) return "a list of waiting answers ends";
      if (state.chunks[at].next_waiting == kNoChunk && con.last_waiting != at)
        return "a list of waiting answers knows its last";
    }
  }
  return waiting == path.waiting ? nullptr : "waiting answers are counted right";
}

template <class State>
const char* broken_in_fences(const State& state) noexcept {
  for (const PendingFence& fence : state.fences) {
    const bool known = fence.target < state.paths.size() || fence.target == kMaxPaths;
    if (!known || fence.asker.path >= state.paths.size()) return "a fence names paths that were there";
    const ServerPath& asker = state.paths[fence.asker.path];
    if (asker.state != PathState::connected || asker.cons.empty() || asker.cons[0].epoch != fence.asker.epoch)
      return "the requester of a fence can be answered";
    if (fence.target < kMaxPaths && state.paths[fence.target].state != PathState::closing)
      return "a fence waits only for a path that closes";
  }
  return nullptr;
}

template <class State>
const char* broken_in(const State& state, const ServerConfig& config) noexcept {
  unsigned connected = 0;
  unsigned waiting = 0;
  unsigned batches = 0;
  for (unsigned index = 0; index < state.paths.size(); ++index) {
    const ServerPath& path = state.paths[index];
    if (const char* rule = broken_in_path(path, config)) return rule;
    if (const char* rule = broken_in_waiting(state, path)) return rule;
    if (state.ended && path.state != PathState::absent) return "a session that ended has no path";
    connected += path.state == PathState::connected ? 1U : 0U;
    waiting += path.waiting;
    batches += path.batch.next != 0 ? 1U : 0U;
  }
  if (batches != state.batches.paths) return "batches of connections are counted right";
  if (connected != state.connected) return "connected paths are counted right";
  if (waiting != state.waiting) return "waiting answers of a session are counted right";
  if (const char* rule = broken_in_users(state)) return rule;
  return broken_in_fences(state);
}

}  // namespace

const char* broken_invariant(const ServerSession& session) noexcept {
  const char* rule = nullptr;
  const ServerConfig* config = nullptr;  // must be set first, because fields are visited in order
  ServerSession::visit_fields(session, [&](const char*, const auto& field) {
    if constexpr (requires { field.handshake_timeout; }) config = &field;
    if constexpr (requires { field.chunks; }) rule = broken_in(field, *config);
  });
  return rule;
}

}  // namespace rtrs
