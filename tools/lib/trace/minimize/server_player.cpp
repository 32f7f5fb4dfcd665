#include "tools/lib/trace/minimize/server_player.hpp"

#include "core/wire/imm.hpp"

namespace rtrs::tools {

std::optional<ServerInput> ServerPlayer::prepare(const ServerInput& input, std::uint32_t number,
                                                 const InputMeta& meta) {
  return std::visit(
      [&](auto one) -> std::optional<ServerInput> {
        if (machine_.ended() || !can(one, meta, number)) return std::nullopt;
        return ServerInput(one);
      },
      input);
}

void ServerPlayer::step(const ServerInput& input, ServerActions& actions) {
  std::visit([&](const auto& one) { machine_.on(one, actions); }, input);
  observe(actions);
}

ServerPlayer::Connection* ServerPlayer::find(ConKey& key) {
  const auto found = connections_.find(key.epoch);
  if (found == connections_.end()) return nullptr;
  key = found->second.now;
  return &found->second;
}

ServerPlayer::Connection* ServerPlayer::at(ConKey now) {
  const auto found = connections_.find(now.epoch);
  return found == connections_.end() ? nullptr : &found->second;
}

bool ServerPlayer::path_serves(const Connection& con) const {
  return !con.lost && machine_.knows(con.now) && machine_.path_state(con.now.path) == PathState::connected;
}

bool ServerPlayer::can(ConnectRequested& in, const InputMeta&, std::uint32_t) {
  const unsigned path = machine_.assign(in.sess_uuid) % kMaxPaths;
  in.key.path = static_cast<std::uint16_t>(path);
  in.key.session = machine_.index();
  Connection con;
  con.now = in.key;
  connections_[in.key.epoch] = con;
  asked_[in.key.path] = in.cid_num;
  return true;
}

bool ServerPlayer::can(ConnectionLost& in, const InputMeta&, std::uint32_t) {
  Connection* con = find(in.key);
  if (con == nullptr || con->lost) return false;
  con->lost = true;
  return true;
}

bool ServerPlayer::can(ConnectionClosed& in, const InputMeta&, std::uint32_t) {
  Connection* con = find(in.key);
  if (con == nullptr || !con->disconnected) return false;
  connections_.erase(in.key.epoch);
  return true;
}

// A client sends INFO_REQ when all its connections are up.
bool ServerPlayer::can(InfoRequested& in, const InputMeta&, std::uint32_t) {
  Connection* con = find(in.key);
  if (con == nullptr || con->lost || con->info) return false;
  std::uint32_t up = 0;
  for (const auto& [epoch, other] : connections_)
    up += other.now.path == in.key.path && machine_.knows(other.now);
  if (up != asked_[in.key.path]) return false;
  con->info = true;
  return true;
}

bool ServerPlayer::can(RequestArrived& in, const InputMeta&, std::uint32_t number) {
  Connection* con = find(in.key);
  if (con == nullptr || !path_serves(*con)) return false;
  // A correct client waits for the response before it reuses the chunk on the same path.
  for (const auto& [other, request] : requests_)
    if (request.chunk == in.chunk && request.key.path == in.key.path &&
        (request.delivered || request.invalidating))
      return false;
  requests_[number] = Request{in.chunk, in.key, std::nullopt, false};
  return true;
}

bool ServerPlayer::can(ChunkInvalidated& in, const InputMeta& meta, std::uint32_t) {
  const auto request = requests_.find(meta.request);
  Connection* con = find(in.key);
  if (con == nullptr || request == requests_.end() || !request->second.invalidating) return false;
  request->second.invalidating = false;
  return true;
}

bool ServerPlayer::can(FenceRequested& in, const InputMeta&, std::uint32_t) {
  Connection* con = find(in.key);
  return con != nullptr && path_serves(*con);
}

bool ServerPlayer::can(Responded& in, const InputMeta& meta, std::uint32_t) {
  const auto request = requests_.find(meta.request);
  if (request == requests_.end() || !request->second.delivered) return false;
  in.serial = *request->second.delivered;
  request->second.delivered.reset();
  return true;
}

bool ServerPlayer::can(ImmReceived& in, const InputMeta&, std::uint32_t) {
  Connection* con = find(in.key);
  if (con == nullptr || con->lost || !machine_.knows(in.key)) return false;
  if (wire::imm_type(in.imm) == wire::ImmType::hb_ack) return con->heartbeats != 0 && con->heartbeats-- != 0;
  return path_serves(*con);
}

bool ServerPlayer::can(SendDone& in, const InputMeta&, std::uint32_t) {
  Connection* con = find(in.key);
  if (con == nullptr || con->lost || con->cookies.empty()) return false;
  in.cookie = con->cookies.front();
  con->cookies.pop_front();
  return true;
}

bool ServerPlayer::can(PeerBroke& in, const InputMeta&, std::uint32_t) {
  Connection* con = find(in.key);
  return con != nullptr && !con->lost;
}

bool ServerPlayer::can(DeadlineReached& in, const InputMeta&, std::uint32_t) {
  return machine_.next_deadline() <= in.now;
}

bool ServerPlayer::can(Continued&, const InputMeta&, std::uint32_t) {
  return machine_.wants_to_continue();
}

// Translates an action. Epochs, chunks and serials keep their recorded values; the path can differ from the
// recorded path.
template <class A>
bool ServerPlayer::rename_fields(A& action) const {
  if constexpr (requires { action.key; }) {
    const auto con = connections_.find(action.key.epoch);
    if (con == connections_.end()) return false;
    action.key.path = con->second.now.path;
    if constexpr (requires { action.cookie; })
      if (action.cookie != 0) action.cookie = retiring(con->second.unsignalled + 1);
  }
  return true;
}

std::optional<ServerAction> ServerPlayer::renamed(const ServerAction& action, const ServerPlayer&) const {
  std::optional<ServerAction> result = action;
  const bool known = visit_action([&](auto& one) { return rename_fields(one); }, *result);
  return known ? result : std::nullopt;
}

void ServerPlayer::observe(const ServerActions& actions) {
  const auto posted = [this](ConKey key, std::uint64_t cookie) {
    Connection* con = at(key);
    if (con == nullptr) return;
    ++con->unsignalled;
    if (cookie == 0) return;
    con->unsignalled = 0;
    con->cookies.push_back(cookie);
  };
  for (const ServerAction& action : actions) {
    if (const auto* response = std::get_if<PostResponse>(&action)) {
      posted(response->key, response->cookie);
    } else if (const auto* imm = std::get_if<PostImm>(&action)) {
      posted(imm->key, imm->cookie);
      Connection* con = at(imm->key);
      if (con != nullptr && wire::imm_type(imm->imm) == wire::ImmType::hb_msg) ++con->heartbeats;
    } else if (const auto* deliver = std::get_if<Deliver>(&action)) {
      // The delivery belongs to the newest request in this chunk on that connection.
      for (auto at = requests_.rbegin(); at != requests_.rend(); ++at) {
        if (at->second.chunk != deliver->chunk || at->second.key != deliver->key) continue;
        at->second.delivered = deliver->serial;
        break;
      }
    } else if (const auto* invalidate = std::get_if<InvalidateChunk>(&action)) {
      for (auto at = requests_.rbegin(); at != requests_.rend(); ++at) {
        if (at->second.chunk != invalidate->chunk || at->second.key != invalidate->key) continue;
        at->second.invalidating = true;
        break;
      }
    } else if (const auto* control = std::get_if<ServerControlAction>(&action)) {
      if (const auto* disconnect = std::get_if<Disconnect>(control)) {
        if (Connection* con = at(disconnect->key)) con->disconnected = true;
      } else if (const auto* info = std::get_if<SendInfoRsp>(control)) {
        posted(info->key, info->cookie);
      } else if (const auto* fence = std::get_if<SendFenceRsp>(control)) {
        posted(fence->key, fence->cookie);
      } else if (const auto* probe = std::get_if<ProbeDelivery>(control)) {
        posted(probe->key, probe->cookie);
      }
    }
  }
}

}  // namespace rtrs::tools
