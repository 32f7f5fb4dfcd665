// Setup of a server path: connect requests and the INFO exchange (protocol sections 3.2 and 3.3).
#include <algorithm>

#include "core/base/assert.hpp"
#include "core/proto/server_session.hpp"
#include "core/wire/linux_errno.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

using namespace wire::linux_errno;

namespace {

std::uint32_t accept_flags(const ServerConfig& config, wire::Extensions extensions) noexcept {
  return (config.always_invalidate ? wire::kConnRspNewRkey : 0U) | wire::granting_flags(extensions);
}

}  // namespace

std::uint16_t ServerSession::assign(const wire::Uuid& sess_uuid) const noexcept {
  const auto count = static_cast<std::uint16_t>(state_.paths.size());
  std::uint16_t unused = count;  // first free index; kMaxPaths: none
  for (std::uint16_t i = 0; i < count; ++i) {
    const bool absent = state_.paths[i].state == PathState::absent;
    if (!absent && state_.paths[i].uuid == sess_uuid) return i;
    if (absent && unused == count) unused = i;
  }
  return unused;
}

ServerSession::Verdict ServerSession::judge(const ConnectRequested& in, std::uint16_t index) const noexcept {
  if (state_.closing) return {Reason::rejected_busy, kEbusy};
  if (in.cid_num > kMaxCons) return {Reason::too_many_connections, kEconnreset};
  if (index == kMaxPaths) return {Reason::too_many_paths, kEconnreset};
  const PathState state = path_state(index);
  const wire::Extensions extensions = in.extensions & config_.extensions & wire::kKnownExtensions;
  if (state == PathState::absent) {
    for (const ServerPath& other : state_.paths) {
      if (other.state == PathState::absent || other.address_pair != in.address_pair) continue;
      // A closing path frees its address soon, so the client should retry.
      if (other.state == PathState::closing) return {Reason::rejected_busy, kEbusy};
      return {Reason::duplicate_address, kEexist};
    }
    return {};
  }
  const ServerPath& path = state_.paths[index];
  if (newer_attempt(path.recon_cnt, in.recon_cnt)) return {Reason::stale_attempt, kEconnreset};
  if (path.state == PathState::closing) return {Reason::rejected_busy, kEbusy};
  if (newer_attempt(in.recon_cnt, path.recon_cnt)) return {Reason::rejected_busy, kEbusy, true};
  if (path.state == PathState::connected) return {Reason::duplicate_connection, kEconnreset};
  if (in.cid_num != path.cons.size() || extensions != path.extensions) {
    return {Reason::protocol_violation, kEconnreset};
  }
  if (path.cons[in.key.con].epoch != 0) return {Reason::duplicate_connection, kEconnreset};
  return {};
}

// Allocates the memory of a new path. Returns false if there is no memory.
bool ServerSession::provide(std::uint16_t index, std::uint16_t cons) noexcept {
  if (path_state(index) != PathState::absent) return true;
  const std::size_t count = std::max<std::size_t>(state_.paths.size(), index + 1U);
  if (!state_.paths.reserve(count)) return false;
  state_.paths.resize(count);
  return state_.paths[index].cons.reserve(cons);
}

void ServerSession::on(const ConnectRequested& in, ServerActions& out) noexcept {
  RTRS_ASSERT(!state_.ended && in.key.con < in.cid_num && in.key.epoch != 0);
  const std::uint16_t index = assign(in.sess_uuid);
  Verdict verdict = judge(in, index);
  if (verdict.reason == Reason::none && !provide(index, in.cid_num))
    verdict = {Reason::no_resources, kEnomem};
  if (verdict.reason != Reason::none) {
    out.push(Reject{in.request, verdict.reason, static_cast<std::uint16_t>(verdict.peer_errno)});
    if (verdict.supersedes) close_path(index, Reason::superseded, out);
    end_if_empty(verdict.reason, out);
    return;
  }
  RTRS_ASSERT(in.key.session == state_.index && in.key.path == index);
  ServerPath& path = state_.paths[index];
  if (path.state == PathState::absent) {
    path.state = PathState::connecting;
    path.extensions = in.extensions & config_.extensions & wire::kKnownExtensions;
    path.recon_cnt = in.recon_cnt;
    path.incarnation = in.key.epoch;
    path.address_pair = in.address_pair;
    path.uuid = in.sess_uuid;
    // Further connections do not restart the deadline, so that a client that never completes the path cannot
    // keep it.
    path.handshake_deadline = later(in.now, config_.handshake_timeout);
    path.cons.resize(in.cid_num);
    out.push(PathChanged{index, PathState::connecting, Reason::none, 0, 0, 0});
  }
  ServerCon& con = path.cons[in.key.con];
  con.epoch = in.key.epoch;
  con.queue.open(config_.send_depth);
  ++path.open_cons;
  out.push(Accept{in.key, in.request, accept_flags(config_, path.extensions)});
  // INFO_REQ may follow immediately after the peer sees the accept.
  if (in.key.con == 0) out.push(PostReceive{in.key, 1, ReceiveKind::message});
}

void ServerSession::on(const InfoRequested& in, ServerActions& out) noexcept {
  ServerPath* path = current(in.key);
  if (path == nullptr || path->state == PathState::closing) return;
  const std::uint16_t index = in.key.path;
  const bool awaited = path->state == PathState::connecting && path->complete() && path->batch.next == 0;
  if (!awaited || in.key.con != 0) {
    close_path(index, Reason::protocol_violation, out);
    return;
  }
  if (in.refusal_errno != 0) {
    const bool by_rule = in.refusal_errno == wire::linux_errno::kEacces;
    close_path(index, by_rule ? Reason::not_allowed : Reason::name_refused, out);
    return;
  }
  bring_up(index, in.now, out);
}

// Requests may arrive on every connection once INFO_RSP is sent, so all connections get their receives first,
// in batches.
void ServerSession::bring_up(std::uint16_t index, Nanos now, ServerActions& out) noexcept {
  ServerPath& path = state_.paths[index];
  const bool probe = has(path.extensions, wire::Extensions::probe);
  const std::size_t full = out.size() + kConsPerStep;
  unsigned cid = path.batch.next;
  for (; cid < path.cons.size() && out.size() < full; ++cid) {
    const unsigned count = server_receives(config_, static_cast<std::uint16_t>(cid), probe);
    if (count == 0) continue;
    out.push(PostReceive{key_of(index, cid), static_cast<std::uint16_t>(count),
                         cid == 0 ? ReceiveKind::message : ReceiveKind::empty});
  }
  set_batch(path, cid);
  if (path.batch.next != 0) return;
  path.state = PathState::connected;
  path.handshake_deadline = kNever;
  path.heartbeat.start(now, config_.heartbeat);
  out.push(SendInfoRsp{key_of(index, 0), path.cons[0].queue.take(1)});
  out.push(PathChanged{index, PathState::connected, Reason::none, 0, 0, 0});
  if (++state_.connected == 1) out.push(LinkChanged{true});
}

}  // namespace rtrs
