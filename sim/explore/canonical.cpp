#include "sim/explore/canonical.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/base/assert.hpp"
#include "core/base/fingerprint.hpp"
#include "core/wire/imm.hpp"
#include "sim/explore/field_name.hpp"
#include "sim/explore/renaming.hpp"
#include "sim/explore/word_hash.hpp"

namespace rtrs::explore {

namespace {

using sim::MachineWorld;
using Connection = MachineWorld::Connection;
using Message = MachineWorld::Message;
using StorageOp = MachineWorld::StorageOp;
using ChunkMemory = MachineWorld::ChunkMemory;
using IoState = MachineWorld::IoState;
using ServerChunks = FixedVector<ServerChunk, kMaxPermits>;

// Heartbeat intervals of small worlds are at least this long. Every run is shorter, so that no heartbeat is
// due.
constexpr Nanos kLongerThanAnyRun = seconds(500'000);
// From this attempt on, the reconnect delay is constant.
constexpr std::uint32_t kMaxDelayAttempt = 8;
constexpr std::uint16_t kLargeQueue = 1024;
constexpr std::size_t kMaxBlocks = 8;

// Hashes all fields except those named here, so that a new field of a state machine distinguishes states
// until it is shown to be irrelevant.
class View {
 public:
  View(const MachineWorld& world, ClientMemo* memo)
      : world_(world), config_(world.config()), memo_(memo), names_(world) {
    for (std::size_t block = 0; config_.ios % config_.blocks != 0 && block < config_.blocks; ++block)
      blocks_[block].add(block);
  }

  std::uint64_t value() {
    MachineWorld::visit_fields(world_,
                               [this](FieldName name, const auto& field) RTRS_INLINED { top(name, field); });
    std::array<std::uint64_t, kMaxBlocks> sums{};
    for (std::size_t block = 0; block < config_.blocks; ++block) sums[block] = blocks_[block].value();
    std::sort(sums.begin(), sums.begin() + config_.blocks);
    for (std::size_t block = 0; block < config_.blocks; ++block) hash_.add(sums[block]);
    for (const char letter : std::string_view(world_.violation() == nullptr ? "" : world_.violation()))
      hash_.add(letter);
    return std::max<std::uint64_t>(1, hash_.take());
  }

 private:
  void client_key(const ConKey& key) {
    hash_.add(key.path);
    hash_.add(key.con);
    hash_.add(names_.age(key.path, key.epoch));
  }
  void server_key(const ConKey& key) {
    hash_.add(key.con);
    hash_.add(names_.name_of(key.epoch));
  }
  void time(Nanos when) {
    const bool never = when == kNever || when > world_.now() + kLongerThanAnyRun;
    hash_.add(never ? kNever : when - world_.now());
  }
  // Adds the start of a wait. Without a timeout, only whether a wait is in progress matters.
  void since(Nanos when) {
    if (config_.client.queue_timeout == kNever) {
      hash_.add(when == kNever);
    } else {
      time(when);
    }
  }
  void io(std::uint16_t io) {
    ++places_;
    if (io == MachineWorld::kNoIo) return hash_.add(io);
    hash_.add(static_cast<std::uint16_t>(io / config_.blocks));
    blocks_[io % config_.blocks].add(places_);
  }
  void heartbeat(const Heartbeat& heartbeat) {
    time(heartbeat.deadline());
    Heartbeat::visit_fields(heartbeat, [this](FieldName name, const auto& field) RTRS_INLINED {
      if (name != "deadline_" && name != "last_sent_") hash_.add(field);
    });
  }

  // --- the client ---

  RTRS_INLINED void client_field(FieldName name, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if (name == "config_" || name == "jitter_" || name == "next_fence_serial_") return;
    // The state machine reads these fields only if there is a lead_head_start.
    if (name == "link_since_" || name == "alive_at_") return;
    if constexpr (std::is_same_v<Field, PathTable>) {
      for (const ClientPath& path : field) client_path(path);
    } else if constexpr (std::is_same_v<Field, PermitPool>) {
      for (const Permit& permit : field) client_permit(permit);
    } else if constexpr (requires { field[0].asked_over; }) {
      for (unsigned index = 0; index < field.size(); ++index) client_fence(index, field[index]);
    } else if (name == "close_deadline_") {
      if constexpr (std::is_same_v<Field, Nanos>) time(field);
    } else if (name == "down_since_") {
      if constexpr (std::is_same_v<Field, Nanos>) since(field == 0 ? world_.now() + 1 : field);
    } else {
      hash_.add(field);
    }
  }
  void client_path(const ClientPath& path) {
    const PathState state = path.state();
    if (state == PathState::absent && path.epoch() == 0) return hash_.add(state);
    const bool ending = state == PathState::draining || state == PathState::closing;
    const bool has_cons = ending || state == PathState::connecting || state == PathState::connected;
    ClientPath::visit_fields(path, [&](FieldName name, const auto& field) RTRS_INLINED {
      using Field = std::remove_cvref_t<decltype(field)>;
      if (name == "epoch_" || name == "peer_errno_" || name == "latency_") return;
      if (name == "unknown_since_" || name == "unknown_again_" || name == "foreign_") return;
      if (name == "leads_" && state != PathState::connecting) return;
      if constexpr (std::is_same_v<Field, Heartbeat>) {
        heartbeat(field);
      } else if constexpr (std::is_same_v<Field, Reason>) {
        hash_.add(ending && field == Reason::rejected_busy);
      } else if constexpr (std::is_same_v<Field, ClientConnections>) {
        if (!has_cons) return;
        hash_.add(field.size());
        for (const ClientConnection& con : field) hash_.add(con.state);
      } else if (name == "deadline_") {
        if constexpr (std::is_same_v<Field, Nanos>) time(field);
      } else if (name == "attempts_") {
        if constexpr (std::is_same_v<Field, std::uint32_t>) hash_.add(std::min(field, kMaxDelayAttempt));
      } else {
        hash_.add(field);
      }
    });
  }
  void client_permit(const Permit& permit) {
    using State = Permit::State;
    hash_.add(permit.state);
    if (permit.state == State::free) return;
    const bool queued = permit.state == State::queued;
    const bool sent = permit.state == State::in_flight;
    if (!queued) hash_.add(permit.path);
    if (sent) hash_.add(names_.age(permit.path, permit.epoch));
    if (!sent) since(permit.since);
    Permit::visit_fields(permit, [&](FieldName name, const auto& field) RTRS_INLINED {
      if (name == "path" || name == "epoch" || name == "since" || name == "generation") return;
      if (name == "next" && !queued) return;
      if ((name == "con" || name == "invalidated") && !sent) return;
      hash_.add(field);
    });
  }
  void client_fence(unsigned index, const auto& fence) {
    hash_.add(fence.state);
    using State = std::remove_cvref_t<decltype(fence.state)>;
    if (fence.state == State::idle) return;
    hash_.add(fence.lingering);
    hash_.add(names_.age(index, fence.upto_epoch));
    since(fence.since);
    time(fence.deadline);
    if (fence.state != State::asked) return;
    hash_.add(names_.serial(fence.serial));
    client_key(fence.asked_over);
  }
  // --- the server ---

  void server_session(const ServerSession& session) {
    hash_.add(session.ended());
    chunks_[session.index()] = nullptr;
    if (session.ended()) return;
    ServerSession::visit_fields(session, [this](const char*, const auto& field) {
      if constexpr (requires { field.chunks; }) server_state(field);
    });
  }
  void server_state(const auto& state) {
    chunks_[state.index] = &state.chunks;
    std::remove_cvref_t<decltype(state)>::visit_fields(state, [&](const char*, const auto& field) {
      using Field = std::remove_cvref_t<decltype(field)>;
      if constexpr (std::is_same_v<Field, ServerPaths>) {
        server_paths(field);
      } else if constexpr (std::is_same_v<Field, ServerChunks>) {
        for (std::uint16_t chunk = 0; chunk < field.size(); ++chunk) server_chunk(chunk, field[chunk]);
      } else if constexpr (std::is_same_v<Field, PendingFences>) {
        hash_.add(field.size());
        for (const PendingFence& fence : field) {
          server_key(fence.asker);
          hash_.add(names_.serial(fence.serial));
          hash_.add(fence.uuid);
          hash_.add(fence.target == kMaxPaths);
          if (fence.target < kMaxPaths) hash_.add(state.paths[fence.target].uuid);
        }
      } else {
        hash_.add(field);
      }
    });
  }
  void server_paths(const ServerPaths& paths) {
    FixedVector<const ServerPath*, kMaxPaths> present;
    for (const ServerPath& path : paths) {
      if (path.state == PathState::absent) continue;
      std::size_t at = present.size();
      present.push_back(&path);
      for (; at > 0 && path.uuid < present[at - 1]->uuid; --at) present[at] = present[at - 1];
      present[at] = &path;
    }
    hash_.add(present.size());
    for (const ServerPath* path : present) server_path(*path);
  }
  void server_path(const ServerPath& path) {
    hash_.add(path_of(path));
    hash_.add(names_.age(path_of(path), path.recon_cnt));
    hash_.add(names_.name_of(path.incarnation));
    time(path.handshake_deadline);
    heartbeat(path.heartbeat);
    for (const ServerCon& con : path.cons) {
      hash_.add(names_.name_of(con.epoch));
      hash_.add(con.first_waiting);
      hash_.add(con.last_waiting);
    }
    ServerPath::visit_fields(path, [this](FieldName name, const auto& field) RTRS_INLINED {
      if (name == "recon_cnt" || name == "incarnation" || name == "handshake_deadline" ||
          name == "heartbeat" || name == "cons" || name == "reason" || name == "uuid")
        return;
      hash_.add(field);
    });
  }
  void server_chunk(std::uint16_t index, const ServerChunk& chunk) {
    hash_.add(chunk.state);
    if (chunk.state == ServerChunk::State::idle) return;
    chunk_user(index, chunk.user);
    if (chunk.has_parked) chunk_user(index, chunk.parked);
    ServerChunk::visit_fields(chunk, [this](FieldName name, const auto& field) RTRS_INLINED {
      if (name != "state" && name != "serial" && name != "user" && name != "parked") hash_.add(field);
    });
  }
  void chunk_user(std::uint16_t chunk, const ChunkUser& user) {
    server_key(user.key);
    hash_.add(names_.name_of(user.incarnation));
    hash_.add(names_.generation(chunk, user.generation));
    ChunkUser::visit_fields(user, [this](FieldName name, const auto& field) RTRS_INLINED {
      if (name != "key" && name != "incarnation" && name != "generation") hash_.add(field);
    });
  }

  // --- messages in flight, and the disk ---

  void connection(const Connection& connection) {
    client_key(connection.client_key);
    hash_.add(connection.client);
    hash_.add(connection.server);
    hash_.add(connection.broken);
    for (const auto* queue : {&connection.to_server, &connection.to_client}) {
      hash_.add(queue->size());
      for (const Message& one : *queue) message(one);
    }
  }
  void message(const Message& message) {
    using Kind = Message::Kind;
    const Kind kind = message.kind;
    hash_.add(is_attempt(message) ? names_.age(message.path, message.recon) : message.recon);
    hash_.add(kind == Kind::request ? names_.generation(message.path, message.extensions)
                                    : message.extensions);
    if (kind == Kind::request || kind == Kind::data) io(message.io);
    if (kind == Kind::data) io(message.content);
    if (kind == Kind::fence_req || kind == Kind::fence_rsp) {
      hash_.add(names_.serial(message.number));
    } else if (kind == Kind::imm && names_.tagged()) {
      const wire::IoRspImm response = wire::decode_io_rsp(message.number);
      const wire::TaggedMsgId id = wire::split_msg_id(config_.server.queue_depth, response.msg_id);
      hash_.add(message.number - response.msg_id);
      hash_.add(id.buf_id);
      const bool known = id.buf_id < config_.client.max_depth;
      hash_.add(known ? names_.generation(static_cast<std::uint16_t>(id.buf_id), id.generation)
                      : id.generation);
    } else {
      hash_.add(message.number);
    }
    Message::visit_fields(message, [this](FieldName name, const auto& field) RTRS_INLINED {
      if (name != "recon" && name != "extensions" && name != "io" && name != "content" && name != "number")
        hash_.add(field);
    });
  }
  void memory(const std::vector<ChunkMemory>& chunks) {
    const std::size_t depth = config_.server.queue_depth;
    for (std::size_t at = 0; at < chunks.size(); ++at) {
      const ServerChunks* users = chunks_[at / depth];
      const bool used = users != nullptr && (*users)[at % depth].state != ServerChunk::State::idle;
      if (!used) continue;
      io(chunks[at].data);
      io(chunks[at].served);
      if ((*users)[at % depth].has_parked) io(chunks[at].parked_header);
    }
  }

  // The hash of the client depends on the client, on the ages of attempts and on the time.
  void client(const ClientSession& session) {
    const bool may_keep = memo_ != nullptr && !world_.client_changed();
    if (may_keep && memo_->known && memo_->now == world_.now() && memo_->epochs == names_.epochs())
      return hash_.add(memo_->hash);
    RTRS_ASSERT(hash_.is_empty());  // the client is the first field of a world
    ClientSession::visit_fields(
        session, [this](FieldName name, const auto& field) RTRS_INLINED { client_field(name, field); });
    const std::uint64_t hash = hash_.take();
    hash_.add(hash);
    if (may_keep) *memo_ = {true, names_.epochs(), world_.now(), hash};
  }

  RTRS_INLINED void top(FieldName name, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, ClientSession>) {
      client(field);
    } else if constexpr (std::is_same_v<Field, std::vector<ServerSession>>) {
      RTRS_ASSERT(field.size() <= chunks_.size());
      for (const ServerSession& session : field) server_session(session);
    } else if constexpr (std::is_same_v<Field, std::vector<Connection>>) {
      for (std::size_t i = 0; i < names_.connections(); ++i) connection(names_.connection(i));
    } else if constexpr (std::is_same_v<Field, std::vector<StorageOp>>) {
      hash_.add(field.size());
      for (const StorageOp& op : field) {
        hash_.add(op.session);
        hash_.add(op.chunk);
        io(op.io);
      }
    } else if constexpr (std::is_same_v<Field, std::vector<ChunkMemory>>) {
      memory(field);
    } else if constexpr (std::is_same_v<Field, std::vector<IoState>>) {
      for (std::size_t i = 0; i < field.size(); ++i) blocks_[i % config_.blocks].add(field[i]);
    } else if (name == "permit_io_" || name == "buffers_") {
      if constexpr (std::is_same_v<Field, std::vector<std::uint16_t>>)
        for (const std::uint16_t one : field) io(one);
    } else if (name == "disk_") {
      if constexpr (std::is_same_v<Field, std::vector<std::uint16_t>>)
        for (std::size_t block = 0; block < field.size(); ++block)
          blocks_[block].add(field[block] == MachineWorld::kNoIo ? field[block]
                                                                 : field[block] / config_.blocks);
    } else if (name != "next_connection_" && name != "now_") {
      hash_.add(field);
    }
  }

  const MachineWorld& world_;
  const sim::MachineConfig& config_;
  ClientMemo* memo_;
  Renaming names_;
  WordHash hash_;
  std::array<Fingerprint, kMaxBlocks> blocks_;
  std::uint32_t places_ = 0;                     // number of visited places that can hold a request number
  std::array<const ServerChunks*, 4> chunks_{};  // indexed by session
};

}  // namespace

const char* why_not_canonical(const sim::MachineConfig& config) noexcept {
  const ClientConfig& client = config.client;
  if (config.paths > kMostPaths) return "too many paths";
  if (config.blocks > kMaxBlocks) return "too many blocks";
  if (client.reconnect_jitter != 0 || client.busy_retry != 0) return "delays are drawn";
  if (client.lead_head_start != kNever) return "turns to lead depend on the clock";
  if (client.max_reconnect_attempts >= 0) return "attempts are counted";
  if (client.policy == MultipathPolicy::min_latency) return "latencies steer";
  if (client.send_depth < kLargeQueue || config.server.send_depth < kLargeQueue)
    return "send queues can fill";
  if (client.heartbeat.interval < 2 * kLongerThanAnyRun ||
      config.server.heartbeat.interval < 2 * kLongerThanAnyRun)
    return "heartbeats are near";
  return nullptr;
}

std::uint64_t canonical(const MachineWorld& world, ClientMemo* memo) {
  return View(world, memo).value();
}

}  // namespace rtrs::explore
