// Requests at a server: states of each chunk from the arrival of a request to its response, over all paths.
#include <algorithm>

#include "conformance/spec/immediate.hpp"
#include "conformance/spec/server.hpp"

namespace rtrs::spec {

std::string ServerSpec::allowed_now(const PossibleStates<Chunk>& chunk) const {
  if (chunk.anything()) return "anything";
  std::string text;
  for (const Chunk& state : chunk.states()) {
    const char* next = nullptr;
    switch (state.phase) {
      case Phase::idle:
        next = "RequestArrived (the chunk is idle)";
        break;
      case Phase::taken:
        next = renews_key(state.user) && !state.ready ? "InvalidateChunk (a request arrived)"
                                                      : "Deliver (a request arrived)";
        break;
      case Phase::invalidating:
        next = "ChunkInvalidated (its key is being made dead)";
        break;
      case Phase::serving:
        next = "Responded (the upper layer has it)";
        break;
      case Phase::answering:
        next = "PostResponse (the upper layer answered)";
        break;
      case Phase::leaving:
        next = "nothing (its path is gone)";
        break;
    }
    if (text.find(next) == std::string::npos) text += (text.empty() ? "" : "; or ") + std::string(next);
  }
  return text;
}

PossibleStates<ServerSpec::Chunk>& ServerSpec::chunk_at(std::uint16_t index) {
  while (chunks_.size() <= index) {
    chunks_.emplace_back();
    if (whole_) chunks_.back().set(Chunk{});
  }
  touched_.push_back(index);
  findings_.ambiguity(chunks_[index].size());
  return chunks_[index];
}

bool ServerSpec::live(const Use& use) const noexcept {
  const Path& path = path_at(use.key.path);
  return path.state == PathState::connected && path.incarnation == use.incarnation;
}

// State of the chunk after its request has ended. If a request is parked, it becomes the next user of the
// chunk.
ServerSpec::Chunk ServerSpec::ended(Chunk chunk) const {
  Chunk next;
  if (chunk.has_parked && live(chunk.parked)) {
    next.phase = Phase::taken;
    next.due = next.from_park = true;
    next.user = chunk.parked;
  }
  return next;
}

void ServerSpec::settle(PossibleStates<Chunk>& chunk) const {
  chunk.step([&](const Chunk& state, auto& next) {
    next.push_back(state);
    if (state.phase != Phase::leaving) return;
    Chunk over = ended(state);
    over.due = false;
    next.push_back(over);
  });
}

void ServerSpec::request_arrived(Path& path) {
  if (path.state == PathState::closing || path.state == PathState::unknown) return;
  if (path.state != PathState::connected) return must_end(path, Rule::peer_violation);
  path.heartbeat.received(false);
  const Use user{event_.key,          path.incarnation,      event_.generation,     event_.reads,
                 event_.data_len > 0, event_.has_descriptor, event_.need_invalidate};
  PossibleStates<Chunk>& chunk = chunk_at(event_.chunk);
  settle(chunk);
  const auto same = [&user](const Use& other) {
    return other.key.path == user.key.path && other.incarnation == user.incarnation;
  };
  // An abandoned READ may still fill the chunk and overwrite the data of a new WRITE.
  const auto refuses = [&](const Chunk& state) {
    const bool smashed = state.user.reads && state.user.has_data && !user.reads && user.has_data;
    return state.phase != Phase::idle &&
           (same(state.user) || (state.has_parked && same(state.parked)) || smashed);
  };
  const auto displaces = [&](const Chunk& state) {
    return state.phase != Phase::idle && !refuses(state) && state.has_parked && live(state.parked);
  };
  if (chunk.all(refuses)) must_end(path, Rule::busy_chunk);
  if (chunk.all(displaces)) must_end(path_at(chunk.states().front().parked.key.path), Rule::busy_chunk);
  chunk.step([&](Chunk state, auto& next) {
    if (state.phase == Phase::idle) {
      state = Chunk{};
      state.phase = Phase::taken;
      state.due = true;
      state.user = user;
    } else if (!refuses(state)) {
      state.has_parked = true;
      state.parked = user;
    }
    next.push_back(state);
  });
}

// Called for ChunkInvalidated, and at the end of the connection, after which no ChunkInvalidated can arrive.
void ServerSpec::chunk_invalidated() {
  if (event_.kind == Kind::ConnectionClosed) {
    for (PossibleStates<Chunk>& chunk : chunks_)
      chunk.step([&](Chunk state, auto& next) {
        if (state.phase == Phase::invalidating && state.user.key == event_.key) state.phase = Phase::leaving;
        next.push_back(state);
      });
    return;
  }
  PossibleStates<Chunk>& chunk = chunk_at(event_.chunk);
  chunk.step([&](Chunk state, auto& next) {
    if (state.phase == Phase::invalidating && state.user.key == event_.key) {
      if (!event_.ok) must_end(path_at(event_.key.path), Rule::deliver_invalidated);
      if (event_.ok && live(state.user)) {
        state.phase = Phase::taken;
        state.due = state.ready = true;
      } else {
        state = ended(state);
      }
    }
    next.push_back(state);
  });
}

void ServerSpec::invalidate_chunk() {
  PossibleStates<Chunk>& chunk = chunk_at(event_.chunk);
  settle(chunk);
  const bool moved = chunk.step([&](Chunk state, auto& next) {
    if (state.phase != Phase::taken || state.ready || state.user.key != event_.key) return;
    if (whole_ && !renews_key(state.user)) return;
    state.phase = Phase::invalidating;
    state.due = false;
    next.push_back(state);
  });
  context().check(
      moved, Rule::deliver_arrived,
      [&] { return "the key of chunk " + std::to_string(event_.chunk) + " is made dead for no request"; },
      [&] { return allowed_now(chunk); });
}

void ServerSpec::deliver() {
  PossibleStates<Chunk>& chunk = chunk_at(event_.chunk);
  settle(chunk);
  bool serving = false, key_alive = false;
  const bool moved = chunk.step([&](Chunk state, auto& next) {
    serving = serving || state.phase == Phase::serving || state.phase == Phase::answering;
    const bool alive = whole_ && renews_key(state.user) && !state.ready;
    key_alive = key_alive || state.phase == Phase::invalidating || (state.phase == Phase::taken && alive);
    if (state.phase != Phase::taken || alive || state.user.key != event_.key ||
        state.from_park != event_.parked)
      return;
    state.phase = Phase::serving;
    state.due = false;
    state.serial = event_.serial16;
    next.push_back(state);
  });
  context().check(
      moved,
      serving     ? Rule::chunk_exclusive
      : key_alive ? Rule::deliver_invalidated
                  : Rule::deliver_arrived,
      [&] { return "Deliver of chunk " + std::to_string(event_.chunk) + " for " + to_string(event_.key); },
      [&] { return allowed_now(chunk); });
  if (moved) return;
  Chunk state;
  state.phase = Phase::serving;
  state.serial = event_.serial16;
  state.user.key = event_.key;
  state.user.incarnation = path_at(event_.key.path).incarnation;
  chunk.set(state);
}

void ServerSpec::responded() {
  PossibleStates<Chunk>& chunk = chunk_at(event_.chunk);
  const bool moved = chunk.step([&](Chunk state, auto& next) {
    if (state.phase != Phase::serving || state.serial != event_.serial16) return;
    if (live(state.user)) {
      state.phase = Phase::answering;
      state.error = event_.error;
      next.push_back(state);
    } else {
      next.push_back(ended(state));
    }
  });
  context().check(
      moved, Rule::respond_once,
      [&] { return "the upper layer answers chunk " + std::to_string(event_.chunk); },
      [&] { return allowed_now(chunk); });
}

void ServerSpec::post_response() {
  PossibleStates<Chunk>& chunk = chunk_at(event_.chunk);
  Path& path = path_at(event_.key.path);
  settle(chunk);
  Chunk answered;
  bool known = false;
  const bool moved = chunk.step([&](const Chunk& state, auto& next) {
    if (state.phase != Phase::answering) return;
    answered = state;
    known = true;
    next.push_back(ended(state));
  });
  context().check(
      moved, Rule::response_once, [&] { return "a response for chunk " + std::to_string(event_.chunk); },
      [&] { return allowed_now(chunk); });
  if (known) check_response(answered);
  context().check(path.state == PathState::connected || path.state == PathState::unknown,
                  Rule::response_connection, "a response over a path that is not connected",
                  "no response: the request's path is gone");
  const bool data = event_.write_data && !event_.data_with_answer;
  const std::uint32_t entries = 1 + (data ? 1 : 0) + (event_.send_invalidate ? 1 : 0);
  if (Connection* con = find(event_.key); con != nullptr && con->live(context()))
    con->post(context(), entries, event_.cookie, settings_.send_depth);
}

void ServerSpec::check_response(const Chunk& chunk) {
  const RuleContext at = context();
  const Use& use = chunk.user;
  const Path& path = path_at(use.key.path);
  at.check(
      event_.key == use.key, Rule::response_connection,
      [&] { return "a response over " + to_string(event_.key); },
      [&] { return to_string(use.key) + ", where the request came"; });
  if (!whole_) return;  // the rest depends on the settings
  const bool tagged = (path.extensions & kGenerationExtension) != 0;
  const std::uint32_t id = tagged && settings_.depth != 0
                               ? tagged_id(settings_.depth, event_.chunk, use.generation)
                               : event_.chunk;
  const unsigned type = imm_type(event_.imm);
  at.check(
      response_id(event_.imm) == id && (type == kIoRsp || type == kIoRspInv), Rule::response_imm,
      [&] { return "immediate " + std::to_string(event_.imm); },
      [&] { return "message id " + std::to_string(id); });
  const std::uint32_t expected = chunk.error <= 511 ? chunk.error : 5;
  at.check(
      response_errno(event_.imm) == expected, Rule::response_status,
      [&] { return "errno " + std::to_string(response_errno(event_.imm)); },
      [&] { return std::to_string(expected); });
  const bool data = use.reads && use.has_descriptor && use.has_data && chunk.error == 0;
  at.check(event_.write_data == data, Rule::response_data,
           event_.write_data ? "data is written" : "no data is written",
           data ? "the data of the READ" : "no data");
  const bool invalidates = sends_invalidation(use);
  at.check(event_.send_invalidate == invalidates && (type == kIoRspInv) == event_.send_invalidate,
           Rule::response_invalidate,
           "the invalidation of the client's key, or the type that tells of it, is wrong",
           invalidates ? "SEND_WITH_INV and type 2" : "no SEND_WITH_INV and type 1");
  const bool joined = data && may_join_data(use);
  at.check(event_.data_with_answer == joined, Rule::response_data,
           event_.data_with_answer ? "the answer carries the data" : "the data has a message of its own",
           joined ? "the data in the answer" : "no data in the answer");
  at.check(event_.fresh_key == renews_key(use), Rule::response_key,
           event_.fresh_key ? "a fresh key" : "no fresh key",
           renews_key(use) ? "a fresh key" : "no fresh key");
}

bool ServerSpec::sends_invalidation(const Use& use) const {
  const bool keys_stay = (path_at(use.key.path).extensions & kKeysStayExtension) != 0;
  return settings_.send_invalidate && !keys_stay && use.need_invalidate && use.has_descriptor;
}

bool ServerSpec::may_join_data(const Use& use) const {
  const bool agreed = (path_at(use.key.path).extensions & kDataWithAnswerExtension) != 0;
  return agreed && use.reads && !sends_invalidation(use);
}

bool ServerSpec::renews_key(const Use& use) const {
  return settings_.always_invalidate && !may_join_data(use);
}

// A response waits only for room in the send queue, or behind another one of its connection that does.
bool ServerSpec::owes_response(const PossibleStates<Chunk>& chunk) {
  // A response and the entries that a sender keeps free for heartbeats need fewer.
  constexpr std::uint32_t kEnoughRoom = 8;
  const auto answering = [&](const Chunk& state) {
    return state.phase == Phase::answering && live(state.user);
  };
  if (!whole_ || chunk.anything() || !chunk.all(answering)) return false;
  const Key key = chunk.states().front().user.key;
  Connection* const con = find(key);
  if (con == nullptr || !con->up() || !con->has_room(settings_.send_depth, kEnoughRoom)) return false;
  return std::none_of(chunks_.begin(), chunks_.end(), [&](const PossibleStates<Chunk>& other) {
    return &other != &chunk && other.any([&](const Chunk& state) {
      return state.phase == Phase::answering && state.user.key == key;
    });
  });
}

void ServerSpec::chunks_end_step() {
  for (const std::uint16_t index : touched_) {
    if (owes_response(chunks_[index])) {
      context().check(
          false, Rule::response_due,
          [&] {
            return "the request in chunk " + std::to_string(index) +
                   " was answered, and no response went out";
          },
          [&] { return allowed_now(chunks_[index]); });
      chunks_[index].set(Chunk{});
    }
    const bool waits = chunks_[index].all(
        [&](const Chunk& state) { return state.phase == Phase::taken && state.due && live(state.user); });
    if (!waits) continue;
    context().check(
        false, Rule::deliver_due,
        [&] { return "the request in chunk " + std::to_string(index) + " was not taken"; },
        [&] { return allowed_now(chunks_[index]); });
    chunks_[index].step([](Chunk state, auto& next) {
      state.due = false;
      next.push_back(state);
    });
  }
  touched_.clear();
}

void ServerSpec::drop_path_users(unsigned index) {
  for (PossibleStates<Chunk>& chunk : chunks_)
    chunk.step([&](Chunk state, auto& next) {
      const bool its = state.phase != Phase::idle && state.user.key.path % kPaths == index;
      if (its && state.phase == Phase::answering) state.phase = Phase::leaving;
      if (its && state.phase == Phase::taken) state = Chunk{};
      next.push_back(state);
    });
}

void ServerSpec::path_released(unsigned index, std::uint32_t incarnation) {
  for (std::size_t at = 0; at < chunks_.size(); ++at) {
    PossibleStates<Chunk>& chunk = chunks_[at];
    settle(chunk);
    const bool unused = chunk.keep([&](const Chunk& state) {
      return state.phase == Phase::idle || state.user.key.path % kPaths != index ||
             state.user.incarnation != incarnation;
    });
    context().check(
        unused, Rule::release_drained,
        [&] { return "the path is released while chunk " + std::to_string(at) + " serves a request of it"; },
        [&] { return allowed_now(chunk); });
    if (!unused) chunk.set(Chunk{});
  }
}

}  // namespace rtrs::spec
