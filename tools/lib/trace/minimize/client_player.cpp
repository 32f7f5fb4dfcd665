#include "tools/lib/trace/minimize/client_player.hpp"

#include <algorithm>

#include "core/wire/imm.hpp"

namespace rtrs::tools {

std::optional<ClientInput> ClientPlayer::prepare(const ClientInput& input, std::uint32_t number,
                                                 const InputMeta& meta) {
  return std::visit(
      [&](auto one) -> std::optional<ClientInput> {
        if (machine_.ended() || !can(one, meta, number)) return std::nullopt;
        return ClientInput(one);
      },
      input);
}

void ClientPlayer::step(const ClientInput& input, ClientActions& actions) {
  std::visit([&](const auto& one) { machine_.on(one, actions); }, input);
  observe(actions);
}

ClientPlayer::Connection* ClientPlayer::find(ConKey& key, std::uint32_t age) {
  const auto newest = newest_.find(key.path);
  if (newest == newest_.end() || newest->second <= age) return nullptr;
  key.epoch = newest->second - age;
  const auto found = connections_.find(key);
  return found == connections_.end() ? nullptr : &found->second;
}

bool ClientPlayer::can(PathAdded& in, const InputMeta&, std::uint32_t) {
  return machine_.path(in.path).state() == PathState::absent;
}

bool ClientPlayer::can(AddressesFound& in, const InputMeta& meta, std::uint32_t) {
  const Connection* con = find(in.key, meta.age);
  return con != nullptr && !con->up && !con->failed && !con->lost;
}

bool ClientPlayer::can(Connected& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  if (con == nullptr || con->up || con->failed || con->lost) return false;
  con->up = true;
  depth_ = in.queue_depth;
  return true;
}

bool ClientPlayer::can(ConnectFailed& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  if (con == nullptr || con->up || con->failed || con->lost) return false;
  con->failed = true;
  return true;
}

bool ClientPlayer::can(ConnectionLost& in, const InputMeta& meta, std::uint32_t) {
  // If the new configuration has fewer connections per path, the last connection is lost instead.
  in.key.con = std::min<std::uint16_t>(in.key.con, machine_.config().con_num - 1);
  Connection* con = find(in.key, meta.age);
  if (con == nullptr || con->lost || con->failed) return false;
  con->lost = true;
  return true;
}

bool ClientPlayer::can(ConnectionClosed& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  if (con == nullptr || !con->disconnected) return false;
  connections_.erase(in.key);
  return true;
}

bool ClientPlayer::can(InfoAccepted& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  if (con == nullptr || !con->info_asked || con->info_given || con->lost) return false;
  con->info_given = true;
  return true;
}

bool ClientPlayer::answer_for(ConKey& key, std::uint32_t age, std::uint32_t request, std::uint32_t& imm) {
  const auto found = requests_.find(request);
  if (found == requests_.end() || !found->second.posted) return false;
  const PostRequest& posted = *found->second.posted;
  key.con = posted.key.con;
  const Connection* con = find(key, age);
  if (con == nullptr || !con->up || con->lost || posted.key != key) return false;
  const wire::IoRspImm rsp = wire::decode_io_rsp(imm);
  const bool tagged = machine_.path(key.path).has_generations();
  const std::uint32_t id =
      tagged ? wire::tagged_msg_id(depth_, posted.permit, posted.generation) : posted.permit;
  imm = wire::encode_io_rsp(wire::imm_type(imm), id, rsp.error);
  // The server responds to each request only once.
  found->second.posted.reset();
  return true;
}

bool ClientPlayer::can(ImmReceived& in, const InputMeta& meta, std::uint32_t) {
  const wire::ImmType type = wire::imm_type(in.imm);
  if (type == wire::ImmType::io_rsp || type == wire::ImmType::io_rsp_w_inv)
    return answer_for(in.key, meta.age, meta.request, in.imm);
  Connection* con = find(in.key, meta.age);
  if (con == nullptr || !con->up || con->lost) return false;
  if (type == wire::ImmType::hb_ack) return con->heartbeats != 0 && con->heartbeats-- != 0;
  // The server sends nothing before INFO_RSP.
  const auto service = connections_.find(ConKey{in.key.path, 0, in.key.epoch});
  return service != connections_.end() && service->second.info_asked;
}

bool ClientPlayer::can(KeyedResponseReceived& in, const InputMeta& meta, std::uint32_t) {
  const auto request = requests_.find(meta.request);
  if (request == requests_.end()) return false;
  in.buf_id = request->second.permit;
  return answer_for(in.key, meta.age, meta.request, in.imm);
}

bool ClientPlayer::can(KeyInvalidated& in, const InputMeta& meta, std::uint32_t) {
  const auto request = requests_.find(meta.request);
  if (request == requests_.end() || !request->second.posted) return false;
  const PostRequest& posted = *request->second.posted;
  in.key.con = posted.key.con;
  const Connection* con = find(in.key, meta.age);
  if (con == nullptr || !con->up || con->lost || !posted.offer_invalidation || posted.key != in.key)
    return false;
  in.permit = request->second.permit;
  return true;
}

bool ClientPlayer::can(FenceAnswered& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  if (con == nullptr || con->lost || !con->fence) return false;
  in.serial = *con->fence;
  con->fence.reset();
  return true;
}

bool ClientPlayer::can(SendDone& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  if (con == nullptr || con->lost || con->cookies.empty()) return false;
  in.cookie = con->cookies.front();
  con->cookies.pop_front();
  return true;
}

bool ClientPlayer::can(PeerBroke& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  return con != nullptr && con->up && !con->lost;
}

bool ClientPlayer::can(Submitted& in, const InputMeta&, std::uint32_t number) {
  in.permit = machine_.next_permit();
  if (in.permit == kNoPermit) return false;
  requests_[number] = Request{in.permit, std::nullopt};
  holders_[in.permit] = number;
  return true;
}

bool ClientPlayer::can(DeadlineReached& in, const InputMeta&, std::uint32_t) {
  return machine_.next_deadline() <= in.now;
}

bool ClientPlayer::can(Continued&, const InputMeta&, std::uint32_t) {
  return machine_.wants_to_continue();
}

bool ClientPlayer::rename(ConKey& key, const ClientPlayer& from) const {
  const auto there = from.newest_.find(key.path);
  const auto here = newest_.find(key.path);
  if (there == from.newest_.end() || here == newest_.end()) return false;
  // The possible actions depend on the state of the path.
  if (machine_.path(key.path).state() != from.machine_.path(key.path).state()) return false;
  key.epoch = key.epoch - there->second + here->second;
  key.con = std::min<std::uint16_t>(key.con, machine_.config().con_num - 1);
  return true;
}

bool ClientPlayer::rename(std::uint16_t& permit, const ClientPlayer& from) const {
  const auto holder = from.holders_.find(permit);
  if (holder == from.holders_.end()) return false;
  const auto request = requests_.find(holder->second);
  if (request == requests_.end()) return false;
  // The possible actions depend on the state and the path of the request.
  const Permit& there = from.machine_.permit(permit);
  const Permit& here = machine_.permit(request->second.permit);
  const bool somewhere = there.state != Permit::State::free && there.state != Permit::State::queued;
  if (there.state != here.state || (somewhere && there.path != here.path)) return false;
  permit = request->second.permit;
  return true;
}

template <class A>
bool ClientPlayer::rename_fields(A& action, const ClientPlayer& from) const {
  if constexpr (requires { action.key; }) {
    if (!rename(action.key, from)) return false;
  }
  if constexpr (requires { action.cookie; }) {
    const auto con = connections_.find(action.key);
    if (con == connections_.end()) return false;
    if (action.cookie != 0) action.cookie = retiring(con->second.unsignalled + 1);
  }
  if constexpr (std::is_same_v<A, PostRequest>) {
    const std::uint16_t before = action.permit;
    if (!rename(action.permit, from)) return false;
    const wire::IoReqImm imm = wire::decode_io_req(depth_, action.imm);
    action.imm = wire::encode_io_req(depth_, imm.buf_id == before ? action.permit : imm.buf_id, imm.off);
    action.generation =
        static_cast<std::uint8_t>(action.generation - from.machine_.permit(before).generation +
                                  machine_.permit(action.permit).generation);
  } else if constexpr (requires { action.permit; }) {
    if (!rename(action.permit, from)) return false;
  }
  if constexpr (std::is_same_v<A, StoreKey>) return rename(action.buf_id, from);
  if constexpr (std::is_same_v<A, SendFenceReq>) action.serial = action.serial - from.fences_ + fences_;
  if constexpr (std::is_same_v<A, Connect> || std::is_same_v<A, SendFenceReq>) {
    ConKey of{action.key.path, 0, action.recon_cnt};
    if constexpr (std::is_same_v<A, SendFenceReq>) of.path = action.path;
    if (!rename(of, from)) return false;
    action.recon_cnt = static_cast<std::uint16_t>(of.epoch);
  }
  return true;
}

std::optional<ClientAction> ClientPlayer::renamed(const ClientAction& action,
                                                  const ClientPlayer& from) const {
  std::optional<ClientAction> result = action;
  const bool known = visit_action([&](auto& one) { return rename_fields(one, from); }, *result);
  return known ? result : std::nullopt;
}

void ClientPlayer::posted(ConKey key, std::uint64_t cookie) {
  Connection& con = connections_[key];
  ++con.unsignalled;
  if (cookie == 0) return;
  con.unsignalled = 0;
  con.cookies.push_back(cookie);
}

void ClientPlayer::observe(const ClientActions& actions) {
  for (const ClientAction& action : actions) {
    if (const auto* request = std::get_if<PostRequest>(&action)) {
      posted(request->key, request->cookie);
      const auto holder = holders_.find(request->permit);
      if (holder != holders_.end()) requests_[holder->second].posted = *request;
    } else if (const auto* imm = std::get_if<PostImm>(&action)) {
      posted(imm->key, imm->cookie);
      if (wire::imm_type(imm->imm) == wire::ImmType::hb_msg) ++connections_[imm->key].heartbeats;
    } else if (const auto* control = std::get_if<ClientControlAction>(&action)) {
      if (const auto* connect = std::get_if<Connect>(control)) {
        newest_[connect->key.path] = std::max(newest_[connect->key.path], connect->key.epoch);
        connections_[connect->key] = Connection{};
      } else if (const auto* disconnect = std::get_if<Disconnect>(control)) {
        connections_[disconnect->key].disconnected = true;
      } else if (const auto* info = std::get_if<SendInfoReq>(control)) {
        posted(info->key, info->cookie);
        connections_[info->key].info_asked = true;
      } else if (const auto* fence = std::get_if<SendFenceReq>(control)) {
        posted(fence->key, fence->cookie);
        connections_[fence->key].fence = fences_ = fence->serial;
      } else if (const auto* probe = std::get_if<ProbeDelivery>(control)) {
        posted(probe->key, probe->cookie);
      }
    }
  }
}

}  // namespace rtrs::tools
