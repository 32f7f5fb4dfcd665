#include "sim/model/machine_world.hpp"

#include <algorithm>
#include <variant>

#include "core/base/assert.hpp"
#include "core/base/fingerprint.hpp"

namespace rtrs::sim {

namespace {

using Kind = MachineStep::Kind;

}  // namespace

MachineConfig small_machine_config(std::uint16_t depth) {
  MachineConfig config;
  config.client.con_num = 2;
  config.client.max_depth = depth;
  config.client.queue_timeout = kNever;
  config.client.reconnect_jitter = 0;
  config.client.busy_retry = 0;
  config.client.lead_head_start = kNever;
  config.client.heartbeat.interval = seconds(1'000'000);
  config.server.queue_depth = depth;
  config.server.max_sessions = 2;
  config.server.heartbeat.interval = seconds(1'000'000);
  return config;
}

// --- enabled steps ---

// An end may detect at any later time that the other end closes or that the connection broke.
bool MachineWorld::server_may_detect_loss(const Connection& c) {
  return c.server == End::open && (c.broken || c.client == End::closing || c.client == End::closed);
}
bool MachineWorld::client_may_detect_loss(const Connection& c) {
  const bool up = c.client == End::open || c.client == End::connecting;
  return up && (c.broken || c.server == End::closing || c.server == End::closed);
}

// Connect requests and accepts are datagrams that are not retransmitted.
bool MachineWorld::waits_for_datagram(const Connection& c) {
  if (c.broken || c.client != End::connecting) return false;
  return c.server == End::none ? !c.to_server.empty() : !c.to_client.empty();
}

void MachineWorld::list(const Connection& c, std::vector<MachineStep>& steps) const {
  const bool given_up = c.broken || c.client == End::closing || c.client == End::closed;
  if (!c.to_server.empty()) steps.push_back({Kind::to_server, c.id});
  if (!c.to_client.empty()) steps.push_back({Kind::to_client, c.id});
  if (c.server == End::none && !c.to_server.empty() && given_up) steps.push_back({Kind::forget, c.id});
  if (server_may_detect_loss(c)) steps.push_back({Kind::server_lost, c.id});
  if (client_may_detect_loss(c)) steps.push_back({Kind::client_lost, c.id});
  const bool held = config_.plant == MachinePlant::never_drained && c.broken;
  if (c.server == End::closing && !held) steps.push_back({Kind::server_closed, c.id});
  if (c.client == End::closing) steps.push_back({Kind::client_closed, c.id});
}

bool MachineWorld::unfinished() const {
  return std::any_of(ios_.begin(), ios_.end(),
                     [](IoState io) { return io == IoState::unsent || io == IoState::outstanding; });
}

std::vector<MachineStep> MachineWorld::enabled() const {
  std::vector<MachineStep> steps;
  if (violation_ != nullptr) return steps;
  for (const Connection& c : connections_) list(c, steps);
  for (std::uint32_t i = 0; i < storage_.size(); ++i) steps.push_back({Kind::storage, i});
  if (finished()) return steps;
  for (std::uint32_t block = 0; block < config_.blocks && client_.next_permit() != kNoPermit; ++block) {
    for (std::size_t io = block; io < ios_.size(); io += config_.blocks) {
      if (ios_[io] == IoState::acknowledged || ios_[io] == IoState::failed) continue;
      if (ios_[io] == IoState::unsent) steps.push_back({Kind::submit, block});
      break;
    }
  }
  const bool timed = client_.next_deadline() != kNever ||
                     std::any_of(sessions_.begin(), sessions_.end(), [](const ServerSession& session) {
                       return !session.ended() && session.next_deadline() != kNever;
                     });
  if (steps.empty() && timed) {
    steps.push_back({Kind::deadline, 0});
  } else if (early_deadlines_ > 0 && timed) {
    steps.push_back({Kind::early_deadline, 0});
  }
  for (const Connection& c : connections_) {
    const bool alive = c.client == End::open || c.client == End::connecting;
    if (cuts_ > 0 && alive && !c.broken) steps.push_back({Kind::cut, c.id});
    if (losses_ > 0 && waits_for_datagram(c)) steps.push_back({Kind::lose, c.id});
  }
  list_operator_steps(steps);
  return steps;
}

void MachineWorld::list_operator_steps(std::vector<MachineStep>& steps) const {
  for (std::uint32_t path = 0; path < config_.paths && operators_ > 0 && !client_.closing(); ++path) {
    if (client_.path(path).connected()) steps.push_back({Kind::reconnect, path});
  }
  if (operators_ > 0 && !sessions_.empty() && !sessions_[0].ended()) {
    for (std::uint32_t path = 0; path < kMaxPaths; ++path) {
      if (sessions_[0].path_state(path) == PathState::connected) steps.push_back({Kind::disconnect, path});
    }
  }
  if (crashes_ > 0 && !sessions_.empty()) steps.push_back({Kind::crash, 0});
  if (config_.close && !closing_) steps.push_back({Kind::close, 0});
}

bool MachineWorld::finished() const {
  return closing_ ? client_.ended() : !unfinished();
}

bool MachineWorld::done() const {
  return violation_ == nullptr && finished() && enabled().empty();
}

unsigned MachineWorld::acknowledged() const noexcept {
  return static_cast<unsigned>(std::count(ios_.begin(), ios_.end(), IoState::acknowledged));
}

std::uint64_t MachineWorld::fingerprint() const {
  Fingerprint hash;
  hash.add(client_.fingerprint());
  hash.add(registry_.fingerprint());
  hash.add(sessions_.size());
  for (const ServerSession& session : sessions_) hash.add(session.fingerprint());
  hash.add(connections_);
  hash.add(storage_);
  hash.add(memory_);
  hash.add(permit_io_);
  hash.add(buffers_);
  hash.add(ios_);
  hash.add(disk_);
  hash.add(cuts_);
  hash.add(early_deadlines_);
  hash.add(losses_);
  hash.add(operators_);
  hash.add(crashes_);
  hash.add(closing_);
  hash.add(next_connection_);
  hash.add(now_);
  hash.add(violation_ != nullptr);
  return hash.value();
}

void MachineWorld::undo(const MachineWorld& before, bool client_differs, bool server_differs) {
  if (client_changed_ || client_differs) client_ = before.client_;
  if (server_changed_ || server_differs) {
    registry_ = before.registry_;
    sessions_ = before.sessions_;
  }
  client_changed_ = server_changed_ = false;
  connections_ = before.connections_;
  storage_ = before.storage_;
  memory_ = before.memory_;
  permit_io_ = before.permit_io_;
  buffers_ = before.buffers_;
  ios_ = before.ios_;
  disk_ = before.disk_;
  cuts_ = before.cuts_;
  early_deadlines_ = before.early_deadlines_;
  losses_ = before.losses_;
  operators_ = before.operators_;
  crashes_ = before.crashes_;
  closing_ = before.closing_;
  next_connection_ = before.next_connection_;
  now_ = before.now_;
  violation_ = before.violation_;
}

// --- actions of the machines ---

void MachineWorld::run_client_action(const ClientAction& action) {
  if (const auto* control = std::get_if<ClientControlAction>(&action)) return run_client_action(*control);
  if (const auto* complete = std::get_if<Complete>(&action)) return completed(*complete);
  Message message;
  message.kind = Message::Kind::imm;
  if (const auto* post = std::get_if<PostImm>(&action)) {
    message.number = post->imm;
    message.cookie = post->cookie;
    return send(by_client(post->key), true, message);
  }
  const auto* request = std::get_if<PostRequest>(&action);
  if (request == nullptr) return;  // receives and keys are always available here
  message.kind = Message::Kind::request;
  message.path = request->permit;
  message.extensions = request->generation;
  message.io = permit_io_[request->permit];
  message.cookie = request->cookie;
  if (message.io == kNoIo) return set_violation("a request that was completed is not sent again");
  send(by_client(request->key), true, message);
}

void MachineWorld::run_client_action(const ClientControlAction& action) {
  Message message;
  if (const auto* connect = std::get_if<Connect>(&action)) {
    message.kind = Message::Kind::connect;
    message.extensions = static_cast<std::uint8_t>(connect->extensions);
    message.first_conn = connect->first_conn;
    message.path = connect->key.path;
    message.recon = connect->recon_cnt;
    message.cid_num = connect->cid_num;
    Connection connection;
    connection.id = next_connection_++;
    connection.client_key = connect->key;
    connection.to_server.push_back(message);
    connections_.push_back(connection);
  } else if (const auto* disconnect = std::get_if<Disconnect>(&action)) {
    Connection* connection = by_client(disconnect->key);
    RTRS_ASSERT(connection != nullptr);
    connection->client = End::closing;
    // The client ignores all messages that still arrive except data. Drops them, so that their order does not
    // distinguish worlds.
    auto& left = connection->to_client;
    left.erase(std::remove_if(left.begin(), left.end(),
                              [](const Message& one) { return one.kind != Message::Kind::data; }),
               left.end());
    if (disconnect->reason == Reason::protocol_violation) set_violation(kBlamed);
  } else if (const auto* info = std::get_if<SendInfoReq>(&action)) {
    message.kind = Message::Kind::info_req;
    message.cookie = info->cookie;
    send(by_client(info->key), true, message);
  } else if (const auto* fence = std::get_if<SendFenceReq>(&action)) {
    message.kind = Message::Kind::fence_req;
    message.number = fence->serial;
    message.path = fence->path;
    message.recon = fence->recon_cnt;
    message.cookie = fence->cookie;
    send(by_client(fence->key), true, message);
  }
}

void MachineWorld::completed(const Complete& complete) {
  const std::uint16_t io = permit_io_[complete.permit];
  if (io == kNoIo) return set_violation("a request completes once");
  if (complete.result == Errc::session_closed && closing_) {
    permit_io_[complete.permit] = buffers_[complete.permit] = kNoIo;
    ios_[io] = IoState::failed;
    return;
  }
  if (complete.result == Errc::no_path && config_.client.queue_timeout != kNever) {
    permit_io_[complete.permit] = buffers_[complete.permit] = kNoIo;
    ios_[io] = IoState::failed;
    return;
  }
  if (complete.result != Errc::ok) return set_violation("no request fails");
  if (is_read(io)) {
    if (buffers_[complete.permit] != write_before(io)) return set_violation(kWrongRead);
    buffers_[complete.permit] = kNoIo;
  } else if (disk_[io % config_.blocks] != io) {
    return set_violation("an acknowledged write is on the disk");
  }
  permit_io_[complete.permit] = kNoIo;
  ios_[io] = IoState::acknowledged;
}

void MachineWorld::run_server_action(std::uint16_t session, const ServerAction& action) {
  if (const auto* control = std::get_if<ServerControlAction>(&action))
    return run_server_action(session, *control);
  Message message;
  message.kind = Message::Kind::imm;
  if (const auto* response = std::get_if<PostResponse>(&action)) {
    if (response->write_data) {
      const ChunkMemory& memory = memory_[session * config_.server.queue_depth + response->chunk];
      Message data;
      data.kind = Message::Kind::data;
      data.path = response->chunk;
      data.io = memory.served;
      data.content = memory.data;
      send(by_server(response->key), false, data);
    }
    message.number = response->imm;
    message.cookie = response->cookie;
    send(by_server(response->key), false, message);
  } else if (const auto* post = std::get_if<PostImm>(&action)) {
    message.number = post->imm;
    message.cookie = post->cookie;
    send(by_server(post->key), false, message);
  } else if (const auto* deliver = std::get_if<Deliver>(&action)) {
    for (const StorageOp& op : storage_) {
      if (op.session == session && op.chunk == deliver->chunk)
        set_violation("a chunk has one user at a time");
    }
    const ChunkMemory& memory = memory_[session * config_.server.queue_depth + deliver->chunk];
    const std::uint16_t io = deliver->parked ? memory.parked_header : memory.header;
    // The operations are kept sorted, so that worlds do not differ in the order of arrival: any operation may
    // complete next.
    const auto at = std::find_if(storage_.begin(), storage_.end(), [&](const StorageOp& op) {
      return op.session > session || (op.session == session && op.chunk > deliver->chunk);
    });
    storage_.insert(at, {session, deliver->chunk, deliver->serial, io});
    memory_[session * config_.server.queue_depth + deliver->chunk].served = io;
  }
}

void MachineWorld::run_server_action(std::uint16_t session, const ServerControlAction& action) {
  Message message;
  if (const auto* accept = std::get_if<Accept>(&action)) {
    Connection* connection = find(accept->request);
    connection->server = End::open;
    connection->server_key = accept->key;
    message.kind = Message::Kind::accept;
    message.number = accept->flags;
    send(connection, false, message);
  } else if (const auto* reject = std::get_if<Reject>(&action)) {
    message.kind = Message::Kind::reject;
    message.peer_errno = reject->peer_errno;
    send(find(reject->request), false, message);
  } else if (const auto* disconnect = std::get_if<Disconnect>(&action)) {
    Connection* connection = by_server(disconnect->key);
    RTRS_ASSERT(connection != nullptr);
    connection->server = End::closing;
    if (disconnect->reason == Reason::protocol_violation) set_violation(kBlamed);
  } else if (const auto* info = std::get_if<SendInfoRsp>(&action)) {
    message.kind = Message::Kind::info_rsp;
    message.cookie = info->cookie;
    send(by_server(info->key), false, message);
  } else if (const auto* fence = std::get_if<SendFenceRsp>(&action)) {
    message.kind = Message::Kind::fence_rsp;
    message.number = fence->serial;
    message.peer_errno = fence->peer_errno;
    message.cookie = fence->cookie;
    send(by_server(fence->key), false, message);
  } else if (std::holds_alternative<EndSession>(action)) {
    RegistryActions none;
    registry_.on(SessionDropped{now_, session}, none);
  }
}

// --- connections ---

MachineWorld::Connection* MachineWorld::find(std::uint32_t id) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [id](const Connection& c) { return c.id == id; });
  return found == connections_.end() ? nullptr : &*found;
}
MachineWorld::Connection* MachineWorld::by_client(ConKey key) {
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [key](const Connection& c) { return c.client_key == key; });
  return found == connections_.end() ? nullptr : &*found;
}
MachineWorld::Connection* MachineWorld::by_server(ConKey key) {
  return find(key.epoch);
}

// Messages posted on a broken or closing connection are not sent, and messages do not reach a closed end.
void MachineWorld::send(Connection* c, bool to_server, const Message& message) {
  if (c == nullptr) return;
  const End from = to_server ? c->client : c->server;
  const End to = to_server ? c->server : c->client;
  if (c->broken || from == End::closing || from == End::closed || to == End::closed) return;
  (to_server ? c->to_server : c->to_client).push_back(message);
}

}  // namespace rtrs::sim
