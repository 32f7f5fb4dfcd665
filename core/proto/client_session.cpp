// Life cycle of the paths: connect, lose, drain, retry.
#include "core/proto/client_session.hpp"

#include <algorithm>

#include "core/base/fingerprint.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

const ClientPath ClientSession::kAbsentPath;

ClientSession::ClientSession(const ClientConfig& config) noexcept : config_(config), jitter_(config.seed) {
  RTRS_ASSERT(config.con_num >= 2 && config.con_num <= kMaxCons);
  RTRS_ASSERT(config.max_depth >= 1 && config.max_depth <= kMaxPermits);
  paths_.resize(kPathsInside);
  fences_.resize(kPathsInside);
}

ClientPath* ClientSession::current(const ConKey& key) noexcept {
  if (key.path < paths_.size() && paths_[key.path].owns(key)) return &paths_[key.path];
  ++counters_.stale_events;
  return nullptr;
}

void ClientSession::report(unsigned index, Nanos delay, ClientActions& out) const noexcept {
  const ClientPath& path = paths_[index];
  out.push(PathChanged{static_cast<std::uint16_t>(index), path.state(), path.reason(), path.peer_errno(),
                       path.attempts(), delay});
}

void ClientSession::on(const PathAdded& in, ClientActions& out) noexcept {
  RTRS_ASSERT(in.path < kMaxPaths);
  if (closing_) return;
  const std::size_t count = std::max<std::size_t>(paths_.size(), in.path + 1U);
  // If there is no memory, the path stays absent.
  if (!paths_.reserve(count) || !fences_.reserve(count)) return;
  paths_.resize(count);
  fences_.resize(count);
  if (!paths_[in.path].add(in.path, config_.con_num)) return;
  path_end_.index = std::max(path_end_.index, in.path + 1U);
  start_path(in.path, in.now, out);
}

void ClientSession::lose_path(unsigned index, Nanos now, Reason reason, std::uint16_t peer_errno,
                              ClientActions& out) noexcept {
  ClientPath& path = paths_[index];
  const bool was_connected = path.connected();
  const bool was_connecting = path.state() == PathState::connecting;
  // Another path connected during this attempt, and give_way() has not reached this path yet.
  if (giving_way_ && connected_ > 0 && path.may_create() && new_home_ && path.came_up()) path.join_next();
  const bool nothing_open = path.lose(reason, peer_errno, out);
  batches_.left = batches_.left || path.in_batch();
  if (was_connecting && !(connected_ == 0 && server_lost_session(path))) path.leave_address();
  report(index, 0, out);
  if (was_connected && --connected_ == 0) {
    for (ClientPath& other : paths_)
      if (refused_beside_session(other)) other.set_foreign();
    down_since_ = link_since_ = now;
    out.push(LinkChanged{false});
  }
  // An unanswered fence request that was sent over this path must be resent over another path.
  for (Fence& fence : fences_)
    if (fence.state == Fence::State::asked && fence.asked_over.path == index)
      fence.state = Fence::State::wanted;
  if (nothing_open) path_drained(index, now, out);
}

void ClientSession::path_drained(unsigned index, Nanos now, ClientActions& out) noexcept {
  ClientPath& path = paths_[index];
  hold_requests(index, now);
  out.push(ReleasePath{static_cast<std::uint16_t>(index)});
  switch (closing_paths_ && path.goal() != ClientPath::Goal::remove ? ClientPath::Goal::close : path.goal()) {
    case ClientPath::Goal::retry:
      schedule_attempt(index, now, out);
      break;
    case ClientPath::Goal::retry_at_once:
      path.forget_attempts();
      start_path(index, now, out);
      break;
    case ClientPath::Goal::answer_challenge:
    case ClientPath::Goal::next_address:
      // The path may still create the session, because no other path has started an attempt since.
      path.same_attempt();
      path.start(now, config_, creates(index, now), out);
      report(index, 0, out);
      break;
    case ClientPath::Goal::close:
      path.settle(PathState::closed, path.reason());
      report(index, 0, out);
      break;
    case ClientPath::Goal::remove:
      path.settle(PathState::absent, path.reason());
      report(index, 0, out);
      break;
  }
  if (!closing_paths_) start_waiting_paths(index, now, out);
}

void ClientSession::schedule_attempt(unsigned index, Nanos now, ClientActions& out) noexcept {
  ClientPath& path = paths_[index];
  const auto limit = config_.max_reconnect_attempts;
  if (limit >= 0 && path.attempts() >= static_cast<std::uint32_t>(limit)) {
    path.settle(PathState::closed, limit == 0 ? path.reason() : Reason::attempts_exhausted);
    return report(index, 0, out);
  }
  const Nanos delay = attempt_delay(path, now);
  path.wait_until(later(now, delay), path.reason());
  report(index, delay, out);
}

// True if the server is reachable but has lost the session, so that the next attempt must create it.
bool ClientSession::server_lost_session(const ClientPath& path) const noexcept {
  return path.reason() == Reason::rejected && path.peer_errno() == wire::linux_errno::kEnxio &&
         path.joins() && !path.foreign();
}

Nanos ClientSession::attempt_delay(const ClientPath& path, Nanos now) noexcept {
  if (path.reason() == Reason::rejected_busy)
    return later(config_.busy_retry, jitter_.up_to(std::min(config_.busy_retry, config_.reconnect_jitter)));
  if (server_lost_session(path) && connected_ == 0 && config_.lead_head_start != kNever) {
    const Nanos turn = std::max(later(link_since_, config_.lead_head_start), now) - now;
    return later(std::max(turn, config_.reconnect_min),
                 jitter_.up_to(std::min(config_.reconnect_min, config_.reconnect_jitter)));
  }
  const unsigned doublings = std::min(path.attempts() == 0 ? 0U : path.attempts() - 1, 32U);
  Nanos delay = config_.reconnect_min;
  for (unsigned i = 0; i < doublings && delay < config_.reconnect_max; ++i) delay = later(delay, delay);
  delay = std::min(delay, config_.reconnect_max);
  return later(delay, jitter_.up_to(std::min(delay, config_.reconnect_jitter)));
}

void ClientSession::on(const PathRemoveRequested& in, ClientActions& out) noexcept {
  end_path(in.path, in.now, ClientPath::Goal::remove, Reason::path_removed, out);
}

void ClientSession::on(const PathDisconnectRequested& in, ClientActions& out) noexcept {
  end_path(in.path, in.now, ClientPath::Goal::close, Reason::requested, out);
}

void ClientSession::end_path(unsigned index, Nanos now, ClientPath::Goal goal, Reason reason,
                             ClientActions& out) noexcept {
  if (index >= paths_.size()) return;
  ClientPath& path = paths_[index];
  switch (path.state()) {
    case PathState::absent:
      return;
    case PathState::connecting:
    case PathState::connected:
      path.set_goal(goal);
      lose_path(index, now, reason, 0, out);
      break;
    case PathState::draining:
    case PathState::closing:
      // A removal is final: a later request of an operator does not restore the path.
      if (path.goal() != ClientPath::Goal::remove) path.set_goal(goal);
      break;
    case PathState::waiting:
    case PathState::closed:
      path.settle(goal == ClientPath::Goal::remove ? PathState::absent : PathState::closed, reason);
      report(index, 0, out);
      if (!closing_paths_) start_waiting_paths(index, now, out);
      break;
  }
  finish_step(now, out);
}

void ClientSession::on(const PathReconnectRequested& in, ClientActions& out) noexcept {
  if (in.path >= paths_.size() || closing_) return;
  ClientPath& path = paths_[in.path];
  switch (path.state()) {
    case PathState::connected:
      path.set_goal(ClientPath::Goal::retry_at_once);
      lose_path(in.path, in.now, Reason::requested, 0, out);
      break;
    case PathState::draining:
    case PathState::closing:
      // A path that is being removed stays removed.
      if (path.goal() != ClientPath::Goal::remove) path.set_goal(ClientPath::Goal::retry_at_once);
      break;
    case PathState::waiting:
    case PathState::closed:
      path.forget_attempts();
      start_path(in.path, in.now, out);
      break;
    case PathState::absent:
    case PathState::connecting:
      break;
  }
  finish_step(in.now, out);
}

void ClientSession::on(const PolicyChanged& in, ClientActions&) noexcept {
  config_.policy = in.policy;
}

void ClientSession::on(const AttemptsChanged& in, ClientActions&) noexcept {
  config_.max_reconnect_attempts = in.max_reconnect_attempts;
}

void ClientSession::on(const CloseRequested& in, ClientActions& out) noexcept {
  if (closing_) return;
  closing_ = true;
  giving_way_ = new_home_ = false;
  close_deadline_ = later(in.now, config_.close_timeout);
  finish_step(in.now, out);
}

void ClientSession::violation(unsigned index, Nanos now, ClientActions& out) noexcept {
  ++counters_.violations;
  lose_path(index, now, Reason::protocol_violation, 0, out);
}

// True if the session's limits cannot change, because the session was opened, or because another path was
// accepted with these limits and may still open the session.
bool ClientSession::limits_are_held(unsigned index) const noexcept {
  if (opened()) return true;
  for (unsigned other = 0; other < paths_.size(); ++other)
    if (other != index && paths_[other].accepted()) return true;
  return false;
}

void ClientSession::on(const AddressesFound& in, ClientActions&) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr || in.key.con != 0 || in.count < 2 || !path->expects_connection(in.key)) return;
  path->addresses_found(in.now, in.count, config_);
}

void ClientSession::on(const Connected& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr || !path->expects_connection(in.key)) return;
  if (in.key.con == 0) {
    const bool changed =
        in.queue_depth != queue_depth_ || in.max_io_size != max_io_size_ || in.max_hdr_size != max_hdr_size_;
    if (changed && limits_are_held(in.key.path)) {
      // The permits and their chunks match the old depth. The path is lost and retries as after any failure,
      // because the server may be restarted with its former depth.
      lose_path(in.key.path, in.now, Reason::depth_changed, 0, out);
      return finish_step(in.now, out);
    }
    queue_depth_ = in.queue_depth;
    max_io_size_ = in.max_io_size;
    max_hdr_size_ = in.max_hdr_size;
  }
  path->connection_up(in, config_, out);
}

void ClientSession::on(const ConnectFailed& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr || path->state() != PathState::connecting) return;
  const bool busy = in.reason == Reason::rejected && in.peer_errno == wire::linux_errno::kEbusy;
  if (in.reason == Reason::rejected && in.peer_errno == wire::linux_errno::kEnxio)
    unknown_at_server(in.key.path, in.now);
  Reason reason = busy ? Reason::rejected_busy : in.reason;
  if (reason == Reason::challenged && path->answers_challenge()) reason = Reason::key_refused;
  if (reason == Reason::challenged) path->take_challenge();
  lose_path(in.key.path, in.now, reason, in.peer_errno, out);
  finish_step(in.now, out);
}

void ClientSession::on(const ConnectionLost& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr) return;
  if (path->state() != PathState::connecting && path->state() != PathState::connected) return;
  lose_path(in.key.path, in.now, in.reason, 0, out);
  finish_step(in.now, out);
}

void ClientSession::on(const ConnectionClosed& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr) return;
  RTRS_ASSERT(path->state() == PathState::draining || path->state() == PathState::closing);
  if (path->connection_closed(in.key)) path_drained(in.key.path, in.now, out);
  finish_step(in.now, out);
}

void ClientSession::on(const InfoAccepted& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr || path->state() != PathState::connecting) return;
  if (in.key.con != 0 || !path->expects_info(config_)) {
    violation(in.key.path, in.now, out);
    return finish_step(in.now, out);
  }
  if (!opened()) permits_.open(std::min<unsigned>(queue_depth_, config_.max_depth));
  bring_up(in.key.path, in.now, out);
  finish_step(in.now, out);
}

void ClientSession::bring_up(unsigned index, Nanos now, ClientActions& out) noexcept {
  if (paths_[index].post_receives(config_, permits_.depth(), out)) return path_up(index, now, out);
  batches_.left = true;
}

void ClientSession::path_up(unsigned index, Nanos now, ClientActions& out) noexcept {
  ClientPath& path = paths_[index];
  ever_connected_ = true;
  new_home_ = new_home_ || (connected_ == 0 && !path.came_up());
  path.come_up(now, config_);
  report(index, 0, out);
  down_since_ = 0;
  if (connected_++ == 0) {
    link_since_ = now;
    out.push(LinkChanged{true});
  }
  giving_way_ = true;
  join_next();
  // The server accepts a newer incarnation of a path only after it closed and drained the older one.
  release_requests(index, true, now);
  start_waiting_paths(index, now, out);
}

// Continues the batch of one path. Only one path is handled per step.
void ClientSession::continue_batch(Nanos now, ClientActions& out) noexcept {
  const auto in_batch = [](const ClientPath& path) { return path.in_batch(); };
  const auto found = std::find_if(paths_.begin(), paths_.end(), in_batch);
  if (found != paths_.end()) {
    if (found->state() == PathState::connecting)
      bring_up(static_cast<unsigned>(found - paths_.begin()), now, out);
    else if (found->connected())
      found->send_owed_heartbeats(out);
    else
      found->end_connections(out);
  }
  batches_.left = std::any_of(paths_.begin(), paths_.end(), in_batch);
}

void ClientSession::on(const PeerBroke& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr) return;
  if (path->state() != PathState::connecting && path->state() != PathState::connected) return;
  violation(in.key.path, in.now, out);
  finish_step(in.now, out);
}

void ClientSession::path_deadline(unsigned index, Nanos now, ClientActions& out) noexcept {
  ClientPath& path = paths_[index];
  switch (path.state()) {
    case PathState::connecting:
      lose_path(index, now, path.expects_info(config_) ? Reason::info_timeout : Reason::connect_timeout, 0,
                out);
      break;
    case PathState::connected:
      if (const Reason dead = path.heartbeat_due(now, config_, awaits_fence_answer(path.key(0)), out);
          dead != Reason::none)
        lose_path(index, now, dead, 0, out);
      batches_.left = batches_.left || path.in_batch();
      break;
    case PathState::waiting:
      start_path(index, now, out);
      break;
    default:
      RTRS_ASSERT(false);
  }
}

// Ends at most one path per step, because ending a path may take an action for each of its connections.
void ClientSession::on(const DeadlineReached& in, ClientActions& out) noexcept {
  for (unsigned index = 0; index < paths_.size(); ++index) {
    if (paths_[index].deadline() > in.now) continue;
    path_deadline(index, in.now, out);
    break;
  }
  if (answers_due_.at <= in.now) answers_are_due(in.now, out);
  fence_deadlines(in.now);
  if (close_deadline_ <= in.now) {
    close_deadline_ = kNever;
    closing_paths_ = true;
  }
  finish_step(in.now, out);
}

void ClientSession::on(const Continued& in, ClientActions& out) noexcept {
  if (batches_.left)
    continue_batch(in.now, out);
  else if (giving_way_)
    give_way(in.now, out);
  finish_step(in.now, out);
}

Nanos ClientSession::next_deadline() const noexcept {
  Nanos next = std::min(close_deadline_, answers_due_.at);
  Nanos oldest = queued_ > 0 ? permits_[queue_head_].since : kNever;  // start of the longest wait for a path
  for (unsigned index = 0; index < path_end_.index; ++index) {
    next = std::min(next, paths_[index].deadline());
    const Fence& fence = fences_[index];
    if (fence.state == Fence::State::idle) continue;
    next = std::min(next, fence.deadline);
    oldest = std::min(oldest, fence.since);
  }
  return oldest == kNever ? next : std::min(next, path_wait_ends(oldest));
}

std::uint64_t ClientSession::fingerprint() const noexcept {
  Fingerprint hash;
  hash.add(*this);
  return hash.value();
}

}  // namespace rtrs
