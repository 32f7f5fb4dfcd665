#include "tools/minimize/client_player.hpp"

#include "core/proto/generation.hpp"
#include "core/wire/imm.hpp"

namespace rtrs::tool {

std::optional<ClientInput> ClientPlayer::prepare(const ClientInput& input, std::uint32_t number,
                                                 const InputMeta& meta) {
  return std::visit(
      [&](auto one) -> std::optional<ClientInput> {
        if (machine_.ended() || !can(one, meta, number)) return std::nullopt;
        return ClientInput(one);
      },
      input);
}

void ClientPlayer::step(const ClientInput& input, ActionList& actions) {
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

bool ClientPlayer::answer_for(ConKey key, std::uint32_t request, std::uint32_t& imm) {
  const auto found = requests_.find(request);
  if (found == requests_.end() || !found->second.posted) return false;
  const PostRequest& posted = *found->second.posted;
  if (posted.key.path != key.path || posted.key.epoch != key.epoch || posted.key.con != key.con) return false;
  const wire::IoRspImm rsp = wire::decode_io_rsp(imm);
  const bool tagged = machine_.path(key.path).has_generations();
  const std::uint32_t id = tagged ? pack_msg_id(depth_, posted.permit, posted.generation) : posted.permit;
  imm = wire::encode_io_rsp(wire::imm_type(imm), id, rsp.error);
  // The server answers once.
  found->second.posted.reset();
  return true;
}

bool ClientPlayer::can(ImmReceived& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  if (con == nullptr || !con->up || con->lost) return false;
  switch (wire::imm_type(in.imm)) {
    case wire::ImmType::io_rsp:
    case wire::ImmType::io_rsp_w_inv:
      return answer_for(in.key, meta.request, in.imm);
    case wire::ImmType::hb_ack:
      return con->heartbeats != 0 && con->heartbeats-- != 0;
    default: {
      // The server begins when it has sent INFO_RSP.
      const auto service = connections_.find(ConKey{in.key.path, 0, in.key.epoch});
      return service != connections_.end() && service->second.info_asked;
    }
  }
}

bool ClientPlayer::can(KeyedResponseReceived& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  const auto request = requests_.find(meta.request);
  if (con == nullptr || !con->up || con->lost || request == requests_.end()) return false;
  in.buf_id = request->second.permit;
  return answer_for(in.key, meta.request, in.imm);
}

bool ClientPlayer::can(KeyInvalidated& in, const InputMeta& meta, std::uint32_t) {
  Connection* con = find(in.key, meta.age);
  const auto request = requests_.find(meta.request);
  if (con == nullptr || !con->up || con->lost || request == requests_.end()) return false;
  const std::optional<PostRequest>& posted = request->second.posted;
  if (!posted || !posted->offer_invalidation || posted->key != in.key) return false;
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

void ClientPlayer::posted(ConKey key, std::uint64_t cookie) {
  if (cookie != 0) connections_[key].cookies.push_back(cookie);
}

void ClientPlayer::observe(const ActionList& actions) {
  for (const Action& action : actions) {
    if (const auto* request = std::get_if<PostRequest>(&action)) {
      posted(request->key, request->cookie);
      const auto holder = holders_.find(request->permit);
      if (holder != holders_.end()) requests_[holder->second].posted = *request;
    } else if (const auto* imm = std::get_if<PostImm>(&action)) {
      posted(imm->key, imm->cookie);
      if (wire::imm_type(imm->imm) == wire::ImmType::hb_msg) ++connections_[imm->key].heartbeats;
    } else if (const auto* control = std::get_if<ControlAction>(&action)) {
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
        connections_[fence->key].fence = fence->serial;
      }
    }
  }
}

}  // namespace rtrs::tool
