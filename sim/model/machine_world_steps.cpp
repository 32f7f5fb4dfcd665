// Execution of each step of a machine world.
#include <algorithm>

#include "core/base/assert.hpp"
#include "core/proto/server_invariants.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"
#include "sim/model/machine_world.hpp"

namespace rtrs::sim {

namespace {

using Kind = MachineStep::Kind;

constexpr std::uint32_t kDataBytes = 4096;
constexpr std::uint32_t kHeaderBytes = 32;

wire::Uuid uuid_of(std::uint8_t number) {
  wire::Uuid uuid;
  uuid.bytes.fill(number);
  return uuid;
}
// Uuid of a client path. The uuid of the session is 0.
wire::Uuid path_uuid(std::uint16_t path) {
  return uuid_of(static_cast<std::uint8_t>(path + 1));
}

}  // namespace

template <class Input>
void MachineWorld::feed_client(const Input& input) {
  ClientActions out;
  client_changed_ = true;
  client_.on(input, out);
  for (const ClientAction& action : out) run_client_action(action);
  while (client_.wants_to_continue()) {
    out.clear();
    client_.on(Continued{now_}, out);
    for (const ClientAction& action : out) run_client_action(action);
  }
  if (const char* rule = client_.broken_invariant()) set_violation(rule);
}

template <class Input>
void MachineWorld::feed_server(ConKey key, const Input& input) {
  const std::uint16_t session = key.session;
  ServerActions out;
  server_changed_ = true;
  sessions_[session].on(input, out);
  for (const ServerAction& action : out) run_server_action(session, action);
  while (!sessions_[session].ended() && sessions_[session].wants_to_continue()) {
    out.clear();
    sessions_[session].on(Continued{now_}, out);
    for (const ServerAction& action : out) run_server_action(session, action);
  }
  if (const char* rule = broken_invariant(sessions_[session])) set_violation(rule);
}

MachineWorld::MachineWorld(const MachineConfig& config)
    : config_(config),
      client_(config.client),
      registry_(config.server),
      permit_io_(config.client.max_depth, kNoIo),
      buffers_(config.client.max_depth, kNoIo),
      ios_(config.ios, IoState::unsent),
      disk_(config.blocks, kNoIo),
      cuts_(config.cuts),
      early_deadlines_(config.early_deadlines),
      losses_(config.losses),
      operators_(config.operators),
      crashes_(config.crashes) {
  RTRS_ASSERT(config.paths >= 1 && config.paths <= kMaxPaths && config.blocks >= 1);
  RTRS_ASSERT(!config.server.always_invalidate && !config.client.offer_invalidation);
  for (std::uint16_t path = 0; path < config.paths; ++path) feed_client(PathAdded{now_, path});
}

void MachineWorld::apply(const MachineStep& step) {
  RTRS_ASSERT(violation_ == nullptr);
  switch (step.kind) {
    case Kind::to_server:
      arrive_at_server(step.which);
      break;
    case Kind::to_client:
      arrive_at_client(step.which);
      break;
    case Kind::forget:
      find(step.which)->to_server.clear();
      break;
    case Kind::server_lost:
    case Kind::client_lost:
      lose(step.which, step.kind == Kind::server_lost);
      break;
    case Kind::server_closed:
    case Kind::client_closed:
      close(step.which, step.kind == Kind::server_closed);
      break;
    case Kind::storage:
      finish_storage(step.which);
      break;
    case Kind::submit:
      submit(static_cast<std::uint16_t>(step.which));
      break;
    case Kind::early_deadline:
      --early_deadlines_;
      [[fallthrough]];
    case Kind::deadline:
      pass_deadline();
      break;
    case Kind::cut:
      --cuts_;
      find(step.which)->broken = true;
      break;
    case Kind::lose:
      --losses_;
      find(step.which)->to_client.clear();  // the accept if there is one, otherwise the request
      if (find(step.which)->server == End::none) find(step.which)->to_server.clear();
      break;
    case Kind::reconnect:
      --operators_;
      feed_client(PathReconnectRequested{now_, static_cast<std::uint16_t>(step.which)});
      break;
    case Kind::disconnect:
      --operators_;
      feed_server({}, PathDisconnectRequested{now_, static_cast<std::uint16_t>(step.which)});
      break;
    case Kind::crash:
      --crashes_;
      crash();
      break;
    case Kind::close:
      closing_ = true;
      feed_client(CloseRequested{now_});
      break;
  }
  connections_.erase(std::remove_if(connections_.begin(), connections_.end(), is_over), connections_.end());
}

bool MachineWorld::is_over(const Connection& c) {
  const bool never_opened = c.server == End::none && c.to_server.empty();
  return c.client == End::closed && (c.server == End::closed || never_opened);
}

// Reports the completion of a message to its sender at once, if the sender's end is still open.
void MachineWorld::retire(std::uint32_t id, bool from_client, std::uint64_t cookie) {
  const Connection* c = find(id);
  if (cookie == 0 || c == nullptr || c->broken) return;
  if (from_client && c->client == End::open) feed_client(SendDone{now_, c->client_key, cookie});
  if (!from_client && c->server == End::open) {
    const ConKey key = c->server_key;
    feed_server(key, SendDone{now_, key, cookie});
  }
}

void MachineWorld::arrive_at_server(std::uint32_t id) {
  Connection* c = find(id);
  const Message message = c->to_server.front();
  c->to_server.erase(c->to_server.begin());
  const ConKey key = c->server_key;
  switch (message.kind) {
    case Message::Kind::connect:
      connect_arrives(id, message);
      break;
    case Message::Kind::info_req: {
      RegistryActions out;
      server_changed_ = true;
      registry_.on(NameClaimed{now_, key.session, 1, 1}, out);
      const auto* answer = std::get_if<AnswerName>(out.begin());
      RTRS_ASSERT(answer != nullptr);
      feed_server(key, InfoRequested{now_, key, answer->refusal_errno});
      break;
    }
    case Message::Kind::request:
      request_arrives(key, message);
      break;
    case Message::Kind::fence_req:
      if (config_.plant == MachinePlant::fence_too_early) {
        Message answer = message;
        answer.kind = Message::Kind::fence_rsp;
        answer.cookie = 0;
        send(c, false, answer);
        break;
      }
      feed_server(key, FenceRequested{now_, key, message.number, message.recon, path_uuid(message.path)});
      break;
    default:
      RTRS_ASSERT(message.kind == Message::Kind::imm);
      feed_server(key, ImmReceived{now_, key, message.number});
  }
  retire(id, true, message.cookie);
}

void MachineWorld::connect_arrives(std::uint32_t id, const Message& message) {
  RegistryActions out;
  server_changed_ = true;
  registry_.on(SessionSought{now_, id, uuid_of(0), message.first_conn}, out);
  const auto* admit = std::get_if<AdmitSession>(out.begin());
  if (admit == nullptr) return run_server_action(0, ServerControlAction(std::get<Reject>(out[0])));
  const std::uint16_t depth = config_.server.queue_depth;
  if (admit->session == sessions_.size()) {
    sessions_.emplace_back(config_.server, admit->session);
    memory_.resize(memory_.size() + depth);
  } else if (admit->create) {
    sessions_[admit->session] = ServerSession(config_.server, admit->session);
    std::fill_n(memory_.begin() + admit->session * depth, depth, ChunkMemory{});
  }
  ConnectRequested in{};
  in.now = now_;
  in.request = id;
  in.address_pair = message.path;
  in.sess_uuid = path_uuid(message.path);
  const auto path = static_cast<std::uint16_t>(sessions_[admit->session].assign(in.sess_uuid) % kMaxPaths);
  const ConKey client_key = find(id)->client_key;
  in.key = {path, client_key.con, id, admit->session};
  in.cid_num = message.cid_num;
  in.recon_cnt = message.recon;
  in.extensions = static_cast<wire::Extensions>(message.extensions);
  in.first_conn = message.first_conn;
  feed_server(in.key, in);
}

// The data is stored, whatever the session does with the request. The header is copied only if the session
// accepts the request.
void MachineWorld::request_arrives(ConKey key, const Message& message) {
  const std::size_t index = key.session;
  const ServerSession& session = sessions_[index];
  ChunkMemory& chunk = memory_[index * config_.server.queue_depth + message.path];
  RequestArrived in{};
  in.now = now_;
  in.key = key;
  in.data_len = kDataBytes;
  in.usr_len = kHeaderBytes;
  in.chunk = message.path;
  in.generation = message.extensions;
  in.direction = is_read(message.io) ? Direction::read : Direction::write;
  in.has_descriptor = is_read(message.io);
  if (!is_read(message.io)) chunk.data = message.io;
  if (session.path_state(key.path) == PathState::connected) {
    if (session.chunk_idle(message.path)) {
      chunk.header = message.io;
      if (is_read(message.io)) chunk.data = kNoIo;  // nothing will read the old data
    } else if (session.will_wait_for_chunk(in)) {
      chunk.parked_header = message.io;
    }
  }
  feed_server(key, in);
}

void MachineWorld::arrive_at_client(std::uint32_t id) {
  Connection* c = find(id);
  const Message message = c->to_client.front();
  c->to_client.erase(c->to_client.begin());
  const ConKey key = c->client_key;
  switch (message.kind) {
    case Message::Kind::accept:
      if (c->client != End::connecting) return;
      c->client = End::open;
      feed_client(Connected{now_, key, config_.server.chunk_size - config_.server.max_hdr_size,
                            config_.server.max_hdr_size, message.number, config_.server.queue_depth});
      break;
    case Message::Kind::reject:
      if (c->client != End::connecting) return;
      feed_client(ConnectFailed{now_, key, Reason::rejected, message.peer_errno});
      break;
    case Message::Kind::info_rsp:
      feed_client(InfoAccepted{now_, key});
      break;
    case Message::Kind::data:
      return data_lands(message);
    case Message::Kind::fence_rsp:
      feed_client(FenceAnswered{now_, key, message.number, message.peer_errno});
      break;
    default:
      RTRS_ASSERT(message.kind == Message::Kind::imm);
      feed_client(ImmReceived{now_, key, message.number});
  }
  retire(id, false, message.cookie);
}

void MachineWorld::lose(std::uint32_t id, bool server_end) {
  const Connection c = *find(id);
  if (server_end) {
    feed_server(c.server_key, ConnectionLost{now_, c.server_key, Reason::transport_error});
  } else if (c.client == End::connecting) {
    feed_client(ConnectFailed{now_, c.client_key, Reason::transport_error, 0});
  } else {
    feed_client(ConnectionLost{now_, c.client_key, Reason::transport_error});
  }
  const Connection* after = find(id);
  if ((server_end ? after->server : after->client) != End::closing) {
    set_violation("a lost connection is disconnected");
  }
}

void MachineWorld::close(std::uint32_t id, bool server_end) {
  Connection& c = *find(id);
  (server_end ? c.server : c.client) = End::closed;
  (server_end ? c.to_server : c.to_client).clear();
  if (config_.drop_late) c.to_server.clear();
  const ConKey key = server_end ? c.server_key : c.client_key;
  if (server_end) {
    feed_server(key, ConnectionClosed{now_, key});
  } else {
    feed_client(ConnectionClosed{now_, key});
  }
}

void MachineWorld::finish_storage(std::size_t index) {
  const StorageOp op = storage_[index];
  storage_.erase(storage_.begin() + static_cast<std::ptrdiff_t>(index));
  std::uint16_t& data = memory_[op.session * config_.server.queue_depth + op.chunk].data;
  std::uint16_t& disk = disk_[op.io % config_.blocks];
  if (is_read(op.io)) {
    data = disk;
  } else {
    if (data != op.io) set_violation(kChunkRace);
    for (std::size_t newer = op.io + config_.blocks; newer < ios_.size(); newer += config_.blocks) {
      if (ios_[newer] == IoState::acknowledged && !is_read(static_cast<std::uint16_t>(newer)))
        set_violation(kLostUpdate);
    }
    disk = data;
  }
  const ConKey any_path{0, 0, 0, op.session};
  feed_server(any_path, Responded{now_, op.chunk, op.serial, 0});
}

std::uint16_t MachineWorld::write_before(std::uint16_t io) const noexcept {
  while (io >= config_.blocks) {
    io = static_cast<std::uint16_t>(io - config_.blocks);
    if (!is_read(io)) return io;
  }
  return kNoIo;
}

// The client gets no event for the data of a READ, only for the response that follows.
void MachineWorld::data_lands(const Message& message) {
  if (permit_io_[message.path] != message.io) return set_violation(kLateData);
  buffers_[message.path] = message.content;
}

// Messages that the server sent may still arrive. Messages to the server are lost, except connect requests
// that it has not received.
void MachineWorld::crash() {
  for (Connection& c : connections_) {
    if (c.server == End::none) continue;
    c.server = End::closed;
    c.to_server.clear();
  }
  server_changed_ = true;
  sessions_.clear();
  memory_.clear();
  storage_.clear();
  registry_ = ServerRegistry(config_.server);
}

void MachineWorld::submit(std::uint16_t block) {
  std::uint16_t io = block;
  while (ios_[io] != IoState::unsent) io = static_cast<std::uint16_t>(io + config_.blocks);
  const std::uint16_t permit = client_.next_permit();
  ios_[io] = IoState::outstanding;
  permit_io_[permit] = io;
  Submitted in{};
  in.now = now_;
  in.permit = permit;
  in.direction = is_read(io) ? Direction::read : Direction::write;
  in.data_len = kDataBytes;
  in.usr_len = kHeaderBytes;
  feed_client(in);
}

void MachineWorld::pass_deadline() {
  Nanos earliest = client_.next_deadline();
  std::size_t owner = sessions_.size();
  for (std::size_t i = 0; i < sessions_.size(); ++i) {
    if (sessions_[i].ended() || sessions_[i].next_deadline() >= earliest) continue;
    earliest = sessions_[i].next_deadline();
    owner = i;
  }
  now_ = std::max(now_, earliest);
  if (owner == sessions_.size()) return feed_client(DeadlineReached{now_});
  feed_server({0, 0, 0, static_cast<std::uint16_t>(owner)}, DeadlineReached{now_});
}

}  // namespace rtrs::sim
