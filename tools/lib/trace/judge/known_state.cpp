#include "tools/lib/trace/judge/known_state.hpp"

#include <string_view>
#include <type_traits>

namespace rtrs::trace {

namespace {

using spec::KnownPath;
using spec::KnownRequest;
using spec::KnownSession;

// Returns a copy of the private member `name` of type T. Snapshots contain all members.
template <class T, class Owner>
T member(const Owner& owner, std::string_view name) {
  T found{};
  Owner::visit_fields(owner, [&](const char* field, const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, T>)
      if (name == field) found = value;
  });
  return found;
}

spec::Key key_of(const ConKey& key) {
  return {key.path, key.con, key.epoch};
}

spec::Uuid uuid_of(const wire::Uuid& uuid) {
  spec::Uuid copy{};
  std::copy(uuid.bytes.begin(), uuid.bytes.end(), copy.begin());
  return copy;
}

spec::PathState state_of(PathState state) {
  switch (state) {
    case PathState::absent:
      return spec::PathState::absent;
    case PathState::connecting:
      return spec::PathState::connecting;
    case PathState::connected:
      return spec::PathState::connected;
    case PathState::draining:
      return spec::PathState::draining;
    case PathState::waiting:
      return spec::PathState::waiting;
    case PathState::closing:
      return spec::PathState::closing;
    case PathState::closed:
      return spec::PathState::closed;
  }
  return spec::PathState::unknown;
}

spec::KnownHeartbeat heartbeat_of(const Heartbeat& heartbeat, bool owes_message, bool owes_ack) {
  return {heartbeat.deadline(), heartbeat.last_sent(), member<std::uint32_t>(heartbeat, "missed_"),
          owes_message, owes_ack};
}

spec::Connection::Known connection_of(const ConKey& key, spec::Connection::Phase phase,
                                      const SendQueue& queue) {
  spec::Connection::Known known;
  known.key = key_of(key);
  known.phase = phase;
  known.unsignalled = member<std::uint16_t>(queue, "unsignalled_");
  known.outstanding = static_cast<std::uint64_t>(member<std::uint16_t>(queue, "depth_") -
                                                 member<std::uint16_t>(queue, "room_"));
  return known;
}

// --- client ---

spec::Settings settings_of(const ClientConfig& config) {
  spec::Settings settings;
  settings.con_num = config.con_num;
  settings.depth = config.max_depth;
  settings.send_depth = config.send_depth;
  settings.extensions = static_cast<std::uint8_t>(config.extensions);
  settings.imm_consumes_receive = config.imm_consumes_receive;
  settings.probe_deliveries = config.probe_deliveries;
  settings.kernel_peer_replays = config.kernel_peer == UnfencedReplay::replay;
  settings.fence_failed_replays = config.fence_failed == UnfencedReplay::replay;
  switch (config.policy) {
    case MultipathPolicy::round_robin:
      settings.policy = spec::Policy::round_robin;
      break;
    case MultipathPolicy::min_inflight:
      settings.policy = spec::Policy::min_inflight;
      break;
    case MultipathPolicy::min_latency:
      settings.policy = spec::Policy::min_latency;
      break;
  }
  settings.queue_timeout = config.queue_timeout;
  settings.request_timeout = config.request_timeout;
  settings.fence_timeout = config.fence_timeout;
  settings.heartbeat_interval = config.heartbeat.interval;
  settings.heartbeat_missed_max = config.heartbeat.missed_max;
  return settings;
}

spec::Connection::Phase phase_of(ClientConnection::State state) {
  switch (state) {
    case ClientConnection::State::connecting:
      return spec::Connection::Phase::asked;
    case ClientConnection::State::up:
      return spec::Connection::Phase::up;
    case ClientConnection::State::disconnecting:
      return spec::Connection::Phase::ending;
    case ClientConnection::State::closed:
      break;
  }
  return spec::Connection::Phase::closed;
}

std::uint8_t extensions_of(const ClientPath& path) {
  std::uint8_t agreed = 0;
  const auto add = [&agreed](bool granted, wire::Extensions extension) {
    if (granted) agreed = static_cast<std::uint8_t>(agreed | static_cast<std::uint8_t>(extension));
  };
  add(path.can_fence(), wire::Extensions::fence);
  add(path.has_generations(), wire::Extensions::generation);
  add(path.has_probe(), wire::Extensions::probe);
  add(path.reads_may_leave_keys(), wire::Extensions::data_with_answer);
  return agreed;
}

KnownPath path_of(const ClientPath& path, const ClientConfig& config) {
  KnownPath known;
  known.state = path.in_batch() ? spec::PathState::unknown : state_of(path.state());
  known.epoch = path.epoch();
  known.recon_cnt = static_cast<std::uint16_t>(path.epoch());
  known.cid_num = config.con_num;
  known.extensions = extensions_of(path);
  known.fresh_keys = path.fresh_keys();
  known.came_up = path.came_up();
  known.info_sent = path.connected() || path.expects_info(config);
  known.challenged = path.goal() == ClientPath::Goal::answer_challenge;
  known.answers = path.answers_challenge();
  known.flying = path.inflight();
  known.latency = path.latency();
  known.heartbeat = heartbeat_of(member<Heartbeat>(path, "heartbeat_"), member<bool>(path, "message_owed_"),
                                 member<bool>(path, "ack_owed_"));
  const auto cons = member<ClientConnections>(path, "cons_");
  if (path.epoch() == 0) return known;
  for (std::size_t con = 0; con < cons.size(); ++con) {
    known.cons.push_back(
        connection_of(path.key(static_cast<std::uint16_t>(con)), phase_of(cons[con].state), cons[con].queue));
    known.cons.back().unanswered = member<bool>(cons[con].probe, "unanswered_");
  }
  return known;
}

KnownRequest request_of(std::uint16_t id, const Permit& permit) {
  KnownRequest known;
  known.permit = id;
  switch (permit.state) {
    case Permit::State::free:
      break;
    case Permit::State::queued:
      known.phase = KnownRequest::Phase::queued;
      break;
    case Permit::State::in_flight:
      known.phase = KnownRequest::Phase::flying;
      break;
    case Permit::State::fenced:
      known.phase = KnownRequest::Phase::held;
      break;
    case Permit::State::abandoned:
      known.phase = KnownRequest::Phase::abandoned;
      break;
  }
  // The state does not tell when a request that was sent again was first sent.
  if (permit.failed_from != Permit::kNowhere) known.phase = KnownRequest::Phase::unknown;
  known.invalidated = permit.invalidated;
  known.service = permit.service;
  known.reads = permit.direction == Direction::read;
  known.offers_invalidation = permit.offers_invalidation;
  known.generation = permit.generation;
  known.affinity = permit.affinity;
  known.data_len = permit.data_len;
  known.usr_len = permit.usr_len;
  known.key = {permit.path, permit.con, permit.epoch};
  known.since = permit.since;
  return known;
}

// --- server ---

spec::Settings settings_of(const ServerConfig& config) {
  spec::Settings settings;
  settings.depth = config.queue_depth;
  settings.send_depth = config.send_depth;
  settings.extensions = static_cast<std::uint8_t>(config.extensions);
  settings.imm_consumes_receive = config.imm_consumes_receive;
  settings.always_invalidate = config.always_invalidate;
  settings.send_invalidate = config.send_invalidate;
  settings.probe_deliveries = config.probe_deliveries;
  settings.handshake_timeout = config.handshake_timeout;
  settings.heartbeat_interval = config.heartbeat.interval;
  settings.heartbeat_missed_max = config.heartbeat.missed_max;
  return settings;
}

KnownPath path_of(const ServerPath& path, std::uint16_t index, const ServerConfig& config) {
  KnownPath known;
  known.fresh_keys = config.always_invalidate;
  known.state = path.batch.next != 0 ? spec::PathState::unknown : state_of(path.state);
  known.epoch = path.incarnation;
  known.recon_cnt = path.recon_cnt;
  known.cid_num = static_cast<std::uint16_t>(path.cons.size());
  known.extensions = static_cast<std::uint8_t>(path.extensions);
  known.uuid = uuid_of(path.uuid);
  known.info_sent = path.state == PathState::connected;
  known.address_pair = path.address_pair;
  known.handshake_deadline = path.handshake_deadline;
  known.heartbeat = heartbeat_of(path.heartbeat, path.owes_heartbeat, path.owes_ack);
  for (std::size_t con = 0; con < path.cons.size(); ++con) {
    const ServerCon& one = path.cons[con];
    const auto phase = one.epoch == 0 ? spec::Connection::Phase::closed
                       : path.open()  ? spec::Connection::Phase::up
                                      : spec::Connection::Phase::ending;
    known.cons.push_back(
        connection_of(ConKey{index, static_cast<std::uint16_t>(con), one.epoch}, phase, one.queue));
    known.cons.back().owes_ack = one.owes_ack;
  }
  return known;
}

spec::KnownUse use_of(const ChunkUser& user) {
  return {key_of(user.key), user.incarnation,    user.generation,     user.direction == Direction::read,
          user.has_data,    user.has_descriptor, user.need_invalidate};
}

spec::KnownChunk chunk_of(std::uint16_t index, const ServerChunk& chunk) {
  spec::KnownChunk known;
  known.chunk = index;
  known.phase = chunk.state == ServerChunk::State::invalidating ? spec::KnownChunk::Phase::invalidating
                : chunk.state == ServerChunk::State::answering  ? spec::KnownChunk::Phase::answering
                                                                : spec::KnownChunk::Phase::serving;
  known.serial = chunk.serial;
  known.error = chunk.peer_errno;
  known.from_park = chunk.from_park;
  known.user = use_of(chunk.user);
  if (chunk.has_parked) known.parked = use_of(chunk.parked);
  return known;
}

}  // namespace

KnownSession known_state(const ClientSession& session, Nanos now) {
  KnownSession known;
  known.client = true;
  known.now = now;
  known.settings = settings_of(session.config());
  known.queue_depth = static_cast<std::uint16_t>(session.queue_depth());
  known.max_io_size = session.max_io_size();
  known.max_hdr_size = session.max_hdr_size();
  known.closing = session.closing();
  known.ended = session.ended();
  for (unsigned path = 0; path < session.path_limit(); ++path)
    known.paths.push_back(path_of(session.path(path), session.config()));
  for (unsigned id = 0; id < session.depth(); ++id) {
    const Permit& permit = session.permit(static_cast<std::uint16_t>(id));
    if (permit.state != Permit::State::free)
      known.requests.push_back(request_of(static_cast<std::uint16_t>(id), permit));
  }
  return known;
}

KnownSession known_state(const ServerSession& session, Nanos now) {
  const auto config = member<ServerConfig>(session, "config_");
  KnownSession known;
  known.now = now;
  known.settings = settings_of(config);
  known.session = session.index();
  known.queue_depth = config.queue_depth;
  known.max_io_size = config.chunk_size - config.max_hdr_size;
  known.max_hdr_size = config.max_hdr_size;
  known.closing = session.closing();
  known.ended = session.ended();
  for (unsigned path = 0; path < session.path_limit(); ++path)
    known.paths.push_back(path_of(session.path(path), static_cast<std::uint16_t>(path), config));
  for (std::size_t index = 0; index < session.chunks().size(); ++index)
    if (session.chunks()[index].state != ServerChunk::State::idle)
      known.chunks.push_back(chunk_of(static_cast<std::uint16_t>(index), session.chunks()[index]));
  for (const PendingFence& fence : session.fences())
    known.fences.push_back({key_of(fence.asker), fence.serial, uuid_of(fence.uuid), fence.target});
  return known;
}

}  // namespace rtrs::trace
