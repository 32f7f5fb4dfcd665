// Fences: a client requests over a connected path that the server closes and drains an incarnation of another
// path. The client replays the requests of that path after the response.
#include "core/proto/server_session.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

void ServerSession::on(const FenceRequested& in, ServerActions& out) noexcept {
  ServerPath* path = current(in.key);
  if (path == nullptr || path->state == PathState::closing) return;
  const std::uint16_t asker = in.key.path;
  const bool granted = has(path->extensions, wire::Extensions::fence);
  if (path->state != PathState::connected || in.key.con != 0 || !granted) {
    close_path(asker, Reason::protocol_violation, out);
    return;
  }
  path->heartbeat.received();
  // Replaces the receive that the SEND has consumed.
  out.push(PostReceive{in.key, 1, ReceiveKind::message});

  PendingFence fence{in.key, in.serial, assign(in.sess_uuid), in.sess_uuid};
  const bool exists = path_state(fence.target) != PathState::absent;
  // A slot holds one incarnation at a time, so a newer incarnation means that the older one is drained.
  if (!exists || newer_attempt(state_.paths[fence.target].recon_cnt, in.recon_cnt)) fence.target = kMaxPaths;
  for (std::size_t i = state_.fences.size(); i-- > 0;) {
    const PendingFence& other = state_.fences[i];
    if (other.asker == in.key && other.uuid == in.sess_uuid) state_.fences.erase_at(i);
  }
  if (fence.target == asker || state_.fences.full()) {
    close_path(asker, Reason::protocol_violation, out);
    return;
  }
  if (!state_.fences.reserve(state_.fences.size() + 1)) return close_path(asker, Reason::no_resources, out);
  state_.fences.push_back(fence);
  if (fence.target < kMaxPaths) {
    close_path(fence.target, Reason::fenced, out);
    return;
  }
  answer_fences(out);
}

void ServerSession::answer_fences(ServerActions& out) noexcept {
  for (std::size_t i = 0; i < state_.fences.size();) {
    const PendingFence fence = state_.fences[i];
    SendQueue& queue = state_.paths[fence.asker.path].cons[0].queue;
    if (fence.target < kMaxPaths || !queue.has_room(1)) {
      ++i;
      continue;
    }
    state_.fences.erase_at(i);
    out.push(SendFenceRsp{fence.asker, queue.take(1), fence.serial, 0, fence.uuid});
  }
}

}  // namespace rtrs
