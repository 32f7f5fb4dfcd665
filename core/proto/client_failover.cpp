// Failover of a lost path's requests. A request is held until both conditions hold, and is then resent:
//   1. The client has drained the path: no response can arrive and no memory is in use.
//   2. The server has closed and drained the old incarnation, so it cannot execute the request any more.
//   Proof:
//      it answered a fence over another path, or it accepted a newer incarnation of the path.
// Without condition 2, an old write could execute after a newer, acknowledged one. Kernel servers have no
// fence; ClientConfig::kernel_peer sets the policy for them.
//
// If a held request fails because no path connects in time (fail_held), the request keeps its permit, the
// client repeats the fence request, and no new request is sent before the fence is answered. Otherwise the
// failed write could execute after a newer, acknowledged one.
#include <algorithm>

#include "core/proto/client_session.hpp"

namespace rtrs {

namespace {

// True if a late execution of the request has effects: all requests except READs of data.
bool has_side_effects(const Permit& permit) noexcept {
  return permit.direction == Direction::write || permit.service;
}

// Returns the deadline for the answer to a fence. Later than `now` even with a timeout of 0, because the
// client would otherwise resend the fence in an endless loop.
Nanos fence_deadline(Nanos now, const ClientConfig& config) noexcept {
  return later(now, std::max(config.fence_timeout, kMinFenceTimeout));
}

}  // namespace

void ClientSession::hold_requests(unsigned index, Nanos now) noexcept {
  ClientPath& path = paths_[index];
  bool held = false;
  std::uint32_t failed_writes = 0;
  for (std::uint16_t id = 0; id < permits_.depth(); ++id) {
    Permit& permit = permits_[id];
    if (permit.state != Permit::State::in_flight || permit.path != index) continue;
    // An overdue request fails instead of being resent, because a resent one would wait for the same storage.
    permit.first_sent.bounds = longest_life() != kNever;
    permit.overdue = overdue_at(permit) <= now;
    permit.overdue = permit.overdue || exceeds_longest_life(permit, now);
    overdue_ += permit.overdue ? 1 : 0;
    failed_writes += permit.overdue && has_side_effects(permit) ? 1 : 0;
    permit.state = Permit::State::fenced;
    if (permit.overdue) permits_.give_up(id);
    permit.failed_from = static_cast<std::uint8_t>(index);
    permit.since = now;
    answers_due_.at = std::min(answers_due_.at, answer_deadline(permit));
    path.request_ended(permit.con);
    held = true;
  }
  if (!held) return;
  Fence& fence = fences_[index];
  // If the client gave up all requests, `since` is kNever, because no request waits.
  if (fence.state == Fence::State::idle || fence.since == kNever) fence.since = now;
  fence.state = Fence::State::wanted;
  fence.upto_epoch = path.epoch();
  fence.deadline = fence_deadline(now, config_);
  fence.lingering = fence.lingering || failed_writes > 0;
  lingering_.possible = lingering_.possible || fence.lingering;
  if (path.can_fence() || config_.kernel_peer == UnfencedReplay::wait) return;
  // Overdue requests are not resent. Their chunks stay unused until the next incarnation of the path.
  Fence kept = fence;
  release_requests(index, false, now);
  const bool waits = std::any_of(permits_.begin(), permits_.end(), [index](const Permit& permit) {
    return permit.state == Permit::State::abandoned && permit.path == index;
  });
  if (!waits) return;
  counters_.unproven_failures += failed_writes;
  kept.lingering = false;
  kept.since = kNever;
  fence = kept;
}

void ClientSession::release_requests(unsigned index, bool proven, Nanos now) noexcept {
  Fence& fence = fences_[index];
  if (fence.state == Fence::State::idle) return;
  fence = Fence{};
  for (std::uint16_t id = 0; id < permits_.depth(); ++id) {
    Permit& permit = permits_[id];
    if (permit.path != index) continue;
    if (permit.state == Permit::State::abandoned && !permit.overdue) {
      if (!proven && has_side_effects(permit)) ++counters_.unproven_failures;
      permits_.put(id);
    }
    if (permit.state != Permit::State::fenced) continue;
    permit.proven = proven;
    enqueue(id, now);
  }
}

// Sends the wanted fence requests over the first connected path that supports the fence.
void ClientSession::drive_fences(Nanos now, ClientActions& out) noexcept {
  for (unsigned index = 0; index < paths_.size(); ++index) {
    Fence& fence = fences_[index];
    if (fence.state != Fence::State::wanted) continue;
    for (unsigned over = 0; over < paths_.size(); ++over) {
      ClientPath& path = paths_[over];
      if (over == index || !path.connected() || !path.can_fence() || !path.has_room(0)) continue;
      fence.state = Fence::State::asked;
      fence.serial = next_fence_serial_++;
      fence.asked_over = path.key(0);
      fence.deadline = fence_deadline(now, config_);
      out.push(SendFenceReq{path.key(0), path.take(0), fence.serial, static_cast<std::uint16_t>(index),
                            static_cast<std::uint16_t>(fence.upto_epoch)});
      break;
    }
  }
}

void ClientSession::on(const FenceAnswered& in, ClientActions& out) noexcept {
  ClientPath* path = current(in.key);
  if (path == nullptr || !path->connected()) return;
  path->received(in.key.con);
  out.push(PostReceive{in.key, 1, ReceiveKind::message});
  for (unsigned index = 0; index < paths_.size(); ++index) {
    Fence& fence = fences_[index];
    if (fence.state != Fence::State::asked || fence.serial != in.serial || fence.asked_over != in.key)
      continue;
    if (in.peer_errno == 0 || config_.fence_failed == UnfencedReplay::replay) {
      release_requests(index, in.peer_errno == 0, in.now);
    } else {
      // The fence is requested again after its deadline, not at once, so that a server that refuses fences is
      // not flooded.
      fence.asked_over = ConKey{};
    }
  }
  finish_step(in.now, out);
}

bool ClientSession::peer_extends() const noexcept {
  return std::any_of(paths_.begin(), paths_.end(), [](const ClientPath& path) {
    return path.state() == PathState::connected && (path.can_fence() || path.has_generations());
  });
}

// True if no connected path supports the fence. Extensions that were agreed on a lost path do not count,
// because the path may have been removed and added again without connecting.
bool ClientSession::nobody_to_ask() const noexcept {
  const auto can = [](const ClientPath& path) { return path.connected() && path.can_fence(); };
  return connected_ > 0 && std::none_of(paths_.begin(), paths_.end(), can);
}

// True if the server may still execute a failed write. A new request could be acknowledged before that write
// executes.
bool ClientSession::holds_new_requests() const noexcept {
  return lingering_.possible && any_lingers();
}

bool ClientSession::any_lingers() const noexcept {
  return std::any_of(fences_.begin(), fences_.end(), [](const Fence& fence) { return fence.lingering; });
}

// Deadline for the response to a request in flight.
Nanos ClientSession::overdue_at(const Permit& permit) const noexcept {
  return later(permit.since, config_.request_timeout);
}

// A request is resent whenever its path is lost. Without this limit, a server that breaks the connection over
// a request and then accepts the client again could keep the request pending forever. kNever: no limit.
Nanos ClientSession::longest_life() const noexcept {
  if (config_.request_timeout == kNever || config_.queue_timeout == kNever) return kNever;
  return later(config_.request_timeout, config_.queue_timeout);
}

bool ClientSession::exceeds_longest_life(const Permit& permit, Nanos now) const noexcept {
  const Nanos life = longest_life();
  return life != kNever && now >= life && permit.first_sent.at <= now - life;
}

// Fails the requests that wait for the fence of this path and exceed longest_life().
void ClientSession::expire_fenced_requests(unsigned index, Nanos now) noexcept {
  if (longest_life() == kNever) return;
  for (std::uint16_t id = 0; id < permits_.depth(); ++id) {
    Permit& permit = permits_[id];
    if (permit.state != Permit::State::fenced || permit.path != index || !exceeds_longest_life(permit, now))
      continue;
    permit.overdue = true;
    ++overdue_;
    permits_.give_up(id);
    fences_[index].lingering = fences_[index].lingering || has_side_effects(permit);
    lingering_.possible = lingering_.possible || fences_[index].lingering;
  }
}

// Returns the time at which the client gives up the request; kNever if the request does not wait for the
// server. Also kNever while the path of the request is being drained, because hold_requests() gives up such
// requests.
Nanos ClientSession::answer_deadline(const Permit& permit) const noexcept {
  if (permit.state == Permit::State::in_flight && paths_[permit.path].connected()) return overdue_at(permit);
  return permit.state == Permit::State::fenced ? later(permit.first_sent.at, longest_life()) : kNever;
}

Nanos ClientSession::first_answer_deadline() const noexcept {
  Nanos first = kNever;
  if (config_.request_timeout == kNever) return first;
  for (const Permit& permit : permits_) first = std::min(first, answer_deadline(permit));
  return first;
}

// Ends at most one path, or none if the actions do not fit into this step. If more requests are overdue, the
// timer is due again at once.
void ClientSession::answers_are_due(Nanos now, ClientActions& out) noexcept {
  for (unsigned index = 0; index < paths_.size(); ++index)
    if (fences_[index].state != Fence::State::idle) expire_fenced_requests(index, now);
  const auto overdue = std::find_if(permits_.begin(), permits_.end(), [&](const Permit& permit) {
    return permit.state == Permit::State::in_flight && answer_deadline(permit) <= now;
  });
  const bool fits =
      overdue != permits_.end() &&
      out.size() + std::min<std::size_t>(paths_[overdue->path].con_count(), kConsPerStep) + 3 * kBatch <=
          kMaxActionsPerStep;
  if (fits) lose_path(overdue->path, now, Reason::request_timeout, 0, out);
  answers_due_.at = first_answer_deadline();
}

// Fails the requests whose response is overdue. Their permits stay in use until the fence of their path is
// answered. Returns false if the budget is exhausted.
bool ClientSession::answer_overdue(unsigned& budget, ClientActions& out) noexcept {
  for (std::uint16_t id = 0; overdue_ > 0; ++id) {
    Permit& permit = permits_[id];
    if (!permit.overdue) continue;
    if (budget == 0) return false;
    --budget;
    --overdue_;
    permit.overdue = false;
    out.push(Complete{id, Errc::request_timeout, 0});
    if (fences_[permit.path].state == Fence::State::idle) permits_.put(id);
  }
  return true;
}

bool ClientSession::oldest_in_flight(OldestRequest& oldest) const noexcept {
  const Permit* found = nullptr;
  for (const Permit& permit : permits_) {
    const bool sent_before = permit.state == Permit::State::queued && permit.failed_from != Permit::kNowhere;
    const bool unanswered =
        permit.state == Permit::State::in_flight || permit.state == Permit::State::fenced || sent_before;
    const bool older = found == nullptr || permit.first_sent.at < found->first_sent.at;
    if (unanswered && older) found = &permit;
  }
  if (found != nullptr) oldest = OldestRequest{found->first_sent.at, found->path, found->con};
  return found != nullptr;
}

// True if a fence request on this connection is unanswered.
bool ClientSession::awaits_fence_answer(const ConKey& key) const noexcept {
  return std::any_of(fences_.begin(), fences_.end(), [&key](const Fence& fence) {
    return fence.state == Fence::State::asked && fence.asked_over == key;
  });
}

void ClientSession::fence_deadlines(Nanos now) noexcept {
  for (unsigned index = 0; index < paths_.size(); ++index) {
    Fence& fence = fences_[index];
    if (fence.state == Fence::State::idle || fence.deadline > now) continue;
    // A removed path never reconnects. If no connected path supports the fence either, there can be no proof
    // that the old incarnation is closed.
    const bool hopeless = paths_[index].state() == PathState::absent && nobody_to_ask();
    // Without a connected path the requests could not be resent, and releasing them would restart the time
    // that they wait for a path.
    if (connected_ > 0 && (config_.fence_failed == UnfencedReplay::replay || hopeless)) {
      release_requests(index, false, now);
    } else {
      fence.state = Fence::State::wanted;
      fence.deadline = fence_deadline(now, config_);
    }
  }
}

// Fails requests that waited for queue_timeout without a path, or whose session is closing. Returns false if
// the budget is exhausted.
bool ClientSession::fail_held(Nanos now, unsigned& budget, ClientActions& out) noexcept {
  const auto expired = [&](const Permit& permit) { return closing_ || path_wait_ends(permit.since) <= now; };
  const Errc result = closing_ ? Errc::session_closed : Errc::no_path;
  while (queued_ > 0 && expired(permits_[queue_head_])) {
    if (budget == 0) return false;
    --budget;
    const Permit& permit = permits_[queue_head_];
    const bool sent_before = permit.failed_from != Permit::kNowhere;
    if (!closing_ && sent_before && !permit.proven && has_side_effects(permit)) ++counters_.unproven_failures;
    complete(dequeue(), result, 0, out);
  }
  for (unsigned index = 0; index < paths_.size(); ++index) {
    Fence& fence = fences_[index];
    if (fence.state == Fence::State::idle) continue;
    const bool overdue = fence.since != kNever && path_wait_ends(fence.since) <= now;
    if (!closing_ && !overdue) continue;
    Nanos oldest = kNever;
    bool kept = false;
    for (std::uint16_t id = 0; id < permits_.depth(); ++id) {
      Permit& permit = permits_[id];
      if (permit.path != index) continue;
      if (permit.state == Permit::State::abandoned) {
        if (closing_) permits_.put(id);
        kept = true;
      }
      if (permit.state != Permit::State::fenced) continue;
      if (!expired(permit)) {
        oldest = std::min(oldest, permit.since);
        continue;
      }
      if (budget == 0) return false;
      --budget;
      if (closing_) {
        complete(id, result, 0, out);
      } else {
        // The permit stays in use, because the server may still execute this request in the same chunk.
        permits_.give_up(id);
        fence.lingering = fence.lingering || has_side_effects(permit);
        lingering_.possible = lingering_.possible || fence.lingering;
        kept = true;
        out.push(Complete{id, result, 0});
      }
    }
    fence.since = oldest;
    if (closing_ || (oldest == kNever && !kept)) fence = Fence{};
  }
  return true;
}

}  // namespace rtrs
