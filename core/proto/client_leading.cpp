// Selects the path that asks the server to create the session (protocol section 3.4), and delays the other
// paths while this path tries.
#include "core/proto/client_session.hpp"

namespace rtrs {

// True if another path can restore the session after the server lost it: a path that was connected before and
// still reconnects. If all such paths were removed or disconnected, any path may create a new session.
bool ClientSession::other_path_can_restore(unsigned index) const noexcept {
  if (!ever_connected_) return false;
  for (unsigned other = 0; other < paths_.size(); ++other) {
    const ClientPath& path = paths_[other];
    const bool trying = path.state() != PathState::absent && path.state() != PathState::closed &&
                        path.state() != PathState::closing;
    if (other != index && trying && path.came_up()) return true;
  }
  return paths_[index].came_up();
}

// Decides whether the path may try to create the session. Until the session exists on the server, one path at
// a time tries to create it, as in the kernel client. If the addresses lead to two servers by mistake, each
// server must not get its own session. When the head start ends, the other paths try one after another, so
// that a link that drops every packet cannot block them.
bool ClientSession::may_lead(unsigned index) const noexcept {
  if (other_path_can_restore(index)) return true;
  for (unsigned other = 0; other < paths_.size(); ++other) {
    const PathState state = paths_[other].state();
    if (other != index && (state == PathState::connecting || state == PathState::draining)) return false;
  }
  return true;
}

// Decides whether the attempt of the path requests a new session. The server may have lost the session (it
// restarted, or its last path was silent for too long) while the paths that could restore the session are
// dead. A path that the server rejected with "unknown session" may create a new session, unless the server
// also rejected the path while the session was alive: in that case it is a different server.
bool ClientSession::creates(unsigned index, Nanos now) const noexcept {
  if (!other_path_can_restore(index)) return true;
  const ClientPath& path = paths_[index];
  const bool late = config_.lead_head_start != kNever && now >= later(link_since_, config_.lead_head_start);
  return connected_ == 0 && late && path.unknown_since() != kNever && !path.foreign();
}

// Returns the time at which this path may try to create the session: after all paths that already try or wait
// to try.
Nanos ClientSession::turn_to_lead(unsigned index, Nanos now) const noexcept {
  if (config_.lead_head_start == kNever) return kNever;
  Nanos turn = now;
  for (unsigned other = 0; other < paths_.size(); ++other) {
    const ClientPath& path = paths_[other];
    const bool ahead = path.state() == PathState::connecting || path.state() == PathState::draining;
    if (other != index && (ahead || path.held_back())) turn = later(turn, config_.lead_head_start);
  }
  return turn;
}

void ClientSession::start_path(unsigned index, Nanos now, ClientActions& out) noexcept {
  ClientPath& path = paths_[index];
  const bool had_turn = path.held_back() && path.deadline() <= now;
  if (!had_turn && !may_lead(index)) {
    path.hold_back(path.held_back() ? path.deadline() : turn_to_lead(index, now));
    return report(index, 0, out);
  }
  path.start(now, config_, creates(index, now), out);
  report(index, 0, out);
}

// Called when a path has connected. Aborts the attempts of other paths that would create a session; these
// paths then join the existing session, because a path to a wrong server must not keep a separate session
// there. Aborts attempts of paths that were never connected in the session. If the connected path is the only
// one and is new (new_home_), also aborts attempts of formerly connected paths, which may lead to a different
// server.
void ClientSession::give_way(Nanos now, ClientActions& out) noexcept {
  for (unsigned index = 0; index < paths_.size() && connected_ > 0; ++index) {
    ClientPath& path = paths_[index];
    if (!path.may_create() || !(new_home_ || path.leads())) continue;
    path.give_way();
    // Ends one path per step, because ending a path may take an action for each of its connections.
    return lose_path(index, now, Reason::other_path_leads, 0, out);
  }
  giving_way_ = new_home_ = false;
}

// Like give_way(), for paths without an attempt in progress.
void ClientSession::join_next() noexcept {
  for (ClientPath& path : paths_)
    if (path.state() != PathState::connecting && !path.connected() && (new_home_ || path.leads()))
      path.join_next();
}

// True if this path's server rejected the path with "unknown session" while the session existed: a message
// sent after the rejection was answered over another path. Requires a second rejection, because the server
// may have sent the first rejection before the session was created.
bool ClientSession::refused_beside_session(const ClientPath& path) const noexcept {
  return path.unknown_again() && link_since_ <= path.unknown_since() && path.unknown_since() <= alive_at_;
}

void ClientSession::unknown_at_server(unsigned index, Nanos now) noexcept {
  ClientPath& path = paths_[index];
  if (!path.joins()) return;
  const Nanos silence = dead_peer_time(config_.heartbeat);
  // If a path stayed connected for the dead-peer time after the first rejection, its server has answered in
  // that time.
  const bool lived = connected_ > 0 && path.unknown_since() != kNever &&
                     link_since_ <= path.unknown_since() && now >= later(path.unknown_since(), silence);
  path.not_known(now, lived);
  if (connected_ > 0 && refused_beside_session(path)) path.set_foreign();
}

void ClientSession::start_waiting_paths(unsigned after, Nanos now, ClientActions& out) noexcept {
  const auto count = static_cast<unsigned>(paths_.size());
  for (unsigned step = 1; step <= count; ++step) {
    const unsigned index = (after + step) % count;
    if (paths_[index].held_back() && may_lead(index)) start_path(index, now, out);
  }
}

}  // namespace rtrs
