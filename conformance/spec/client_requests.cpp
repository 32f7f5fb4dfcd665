// Requests of a client, from Submitted to Complete.
#include <algorithm>

#include "conformance/spec/client.hpp"
#include "conformance/spec/immediate.hpp"

namespace rtrs::spec {

namespace {
constexpr PathState kConnected = PathState::connected;
}  // namespace

std::string ClientSpec::allowed_now(const Permit& permit) const {
  if (permit.slot.anything()) return "anything";
  std::string text;
  for (const Slot& slot : permit.slot.states()) {
    const char* next = nullptr;
    switch (slot.phase) {
      case Phase::free:
        next = "Submitted (it is free)";
        break;
      case Phase::queued:
        next = "PostRequest, or Complete as no_path or session_closed (it is queued)";
        break;
      case Phase::flying:
        next = "a response, or ReleasePath (it is under way)";
        break;
      case Phase::answered:
        next = "Complete (it was answered)";
        break;
      case Phase::held:
        next = "FailedOver, or Complete as no_path or session_closed (its path was lost)";
        break;
      case Phase::again:
        next = "PostRequest (it failed over)";
        break;
      case Phase::abandoned:
        next = "nothing until its path's fence is over (it was given up)";
        break;
    }
    if (text.find(next) == std::string::npos) text += (text.empty() ? "" : "; or ") + std::string(next);
  }
  return text;
}

void ClientSpec::submitted() {
  Permit& permit = permit_at(event_.permit);
  const bool in_range = depth() == 0 || event_.permit < depth();
  const bool free = permit.slot.step([&](const Slot& slot, auto& next) {
    if (slot.phase == Phase::free) next.push_back(Slot{Phase::queued, false, 0, 0, 0, 0, event_.now, 0});
  });
  context().check(
      free && in_range, Rule::permit_free,
      [&] { return "a request takes permit " + std::to_string(event_.permit); },
      [&] { return in_range ? allowed_now(permit) : "permits below " + std::to_string(depth()); });
  permit.slot.set(Slot{Phase::queued, false, 0, 0, 0, 0, event_.now, 0});
  permit.described = true;
  permit.service = event_.service;
  permit.reads = event_.reads;
  permit.affinity = event_.affinity;
  permit.order = ++submitted_;
  permit.fresh = true;
  permit.offers_invalidation = event_.offers_invalidation;
  permit.data_len = event_.data_len;
  permit.usr_len = event_.usr_len;
  just_submitted_ = event_.permit;
}

void ClientSpec::imm_received(Path& path) {
  if (path.state != kConnected) return;
  const unsigned type = imm_type(event_.imm);
  path.heartbeat.received(type == kHbMsg);
  if (Connection* con = find(event_.key)) {
    con->heard_at = event_.now;
    con->unanswered = con->unanswered && type != kHbAck;
  }
  if (type == kHbAck && event_.key.con == 0) {
    const std::optional<Time> asked = path.heartbeat.asked();
    path.latency = asked ? std::optional(event_.now - *asked) : std::nullopt;
  }
  const bool is_response = type == kIoRsp || type == kIoRspInv;
  if (is_response && (!path.fresh_keys || path.joins_data)) return response(path);
  if (is_response || (type != kHbMsg && type != kHbAck)) must_end(path, Rule::peer_violation);
}

void ClientSpec::keyed_response(Path& path) {
  if (path.state != kConnected) return;
  path.heartbeat.received(false);
  if (Connection* con = find(event_.key)) con->heard_at = event_.now;
  const unsigned type = imm_type(event_.imm);
  std::uint32_t id = response_id(event_.imm);
  if (path.generations && queue_depth_ != 0) id &= (1U << log2up(queue_depth_)) - 1;
  const bool open = id < permits_.size() && permits_[id].slot.any([&](const Slot& slot) {
    return slot.phase == Phase::flying && slot.path == event_.key.path && slot.epoch == event_.key.epoch;
  });
  if (!path.fresh_keys || (type != kIoRsp && type != kIoRspInv) || id != event_.chunk || !open)
    return must_end(path, Rule::peer_violation);
  key_due_ = true;
  keyed_ = event_;
  response(path);
}

void ClientSpec::key_invalidated(Path& path) {
  if (path.state != kConnected) return;
  path.heartbeat.received(false);
  if (Connection* con = find(event_.key)) con->heard_at = event_.now;
  Permit* permit = event_.permit < permits_.size() ? &permits_[event_.permit] : nullptr;
  const bool ours = permit != nullptr && permit->slot.any([&](const Slot& slot) {
    return slot.phase == Phase::flying && slot.path == event_.key.path;
  }) && (!permit->described || permit->offers_invalidation);
  if (!ours) return must_end(path, Rule::peer_violation);
  permit->slot.step([&](Slot slot, auto& next) {
    if (slot.phase == Phase::flying && slot.path == event_.key.path) slot.invalidated = true;
    next.push_back(slot);
  });
}

// The format of response ids is unknown, so the response may belong to any request of this path.
void ClientSpec::forget_flights() {
  for (Permit& permit : permits_)
    if (permit.slot.any(
            [&](const Slot& slot) { return slot.phase == Phase::flying && slot.path == event_.key.path; }))
      permit.slot.forget();
}

// Finds the request that the response answers. Late and repeated responses answer none.
void ClientSpec::response(Path& path) {
  if (queue_depth_ == 0) return forget_flights();
  std::uint32_t id = response_id(event_.imm);
  std::uint32_t tag = 0;
  if (path.generations) {
    tag = id >> log2up(queue_depth_);
    id &= (1U << log2up(queue_depth_)) - 1;
  }
  if (id >= depth()) return must_end(path, Rule::peer_violation);
  Permit& permit = permit_at(static_cast<std::uint16_t>(id));
  if (permit.slot.anything()) return;
  const auto waits = [&](const Slot& slot) {
    return slot.phase == Phase::flying && slot.path == event_.key.path && slot.epoch == event_.key.epoch;
  };
  if (!permit.slot.any(waits)) return;
  const std::uint32_t mask = (1U << generation_bits(queue_depth_)) - 1;
  if (path.generations && permit.generation && tag != (*permit.generation & mask)) return;
  const bool claims = imm_type(event_.imm) == kIoRspInv;
  const bool honest = permit.slot.any([&](const Slot& slot) {
    return waits(slot) && slot.con == event_.key.con && (!claims || slot.invalidated);
  });
  // With NEW_RKEY, only the response of a READ may carry no key.
  const bool keyless = path.fresh_keys && event_.kind == Kind::ImmReceived;
  const bool may = !keyless || (!claims && (!permit.described || permit.reads));
  if (!honest || !may) return must_end(path, Rule::peer_violation);
  permit.slot.set(
      Slot{Phase::answered, false, 0, 0, 0, static_cast<std::uint16_t>(response_errno(event_.imm)), 0, 0});
  answered_ = static_cast<std::uint16_t>(id);
  if (path.flying > 0) --path.flying;
}

void ClientSpec::post_request() {
  Path& path = path_at(event_.key.path);
  Permit& permit = permit_at(event_.permit);
  context().check(
      path.state == kConnected || path.state == PathState::unknown, Rule::request_path,
      [&] {
        return "a request over path " + std::to_string(event_.key.path) + ", which is " +
               std::string(name_of(path.state));
      },
      [] { return std::string("a connected path"); });
  if (!move_to_flight(permit)) {
    context().check(
        false, Rule::request_once, [&] { return "permit " + std::to_string(event_.permit) + " is posted"; },
        [&] { return allowed_now(permit); });
    permit.slot.set(Slot{Phase::flying, false, event_.key.path, event_.key.con, event_.key.epoch, 0, 0,
                         event_.now, event_.now});
  }
  findings_.ambiguity(permit.slot.size());
  check_request(path, permit);
  check_choice(permit);
  check_affinity(path, permit);
  ++path.flying;
  if (Connection* con = find(event_.key); con != nullptr && con->live(context())) {
    check_order(permit, *con);
    con->post(context(), 1, event_.cookie, settings_.send_depth);
  }
}

bool ClientSpec::move_to_flight(Permit& permit) {
  Slot flying{Phase::flying, false,     event_.key.path, event_.key.con, event_.key.epoch, 0, 0,
              event_.now,    event_.now};
  if (permit.slot.anything()) {
    permit.slot.set(flying);
    return true;
  }
  return permit.slot.step([&](const Slot& slot, auto& next) {
    const bool again = slot.phase == Phase::again && slot.path == event_.key.path;
    flying.first = again ? slot.first : event_.now;
    if (slot.phase == Phase::queued || again) next.push_back(flying);
  });
}

void ClientSpec::check_request(const Path& path, Permit& permit) {
  const RuleContext at = context();
  if (permit.described && queue_depth_ != 0) {
    const std::uint32_t expected = request_imm(queue_depth_, event_.permit, permit.data_len + permit.usr_len);
    at.check(
        event_.imm == expected, Rule::request_imm, [&] { return "immediate " + std::to_string(event_.imm); },
        [&] { return std::to_string(expected); });
    at.check(permit.service == (event_.key.con == 0), Rule::service_connection,
             permit.service ? "an administrative request over an IO connection" : "IO over cid 0",
             permit.service ? "cid 0" : "a connection above cid 0");
  }
  if (path.epoch == 0) return;
  if (path.generations) {
    at.check(permit.generation != event_.generation, Rule::request_generation,
             "the generation of the use before", "the next generation");
    permit.generation = event_.generation;
  } else {
    at.check(event_.generation == 0, Rule::request_generation, "a generation that nobody agreed on", "0");
  }
}

// True if the reported result is possible for a request in this state.
bool ClientSpec::result_fits(const Slot& slot) const {
  const bool waits = slot.phase == Phase::queued || slot.phase == Phase::held;
  switch (event_.result) {
    case Result::ok:
      return slot.phase == Phase::answered && slot.error == 0 && event_.error == 0;
    case Result::peer_error:
      return slot.phase == Phase::answered && slot.error != 0 && event_.error == slot.error;
    case Result::no_path:
      return waits;
    case Result::request_timeout:
      return slot.phase == Phase::held;
    case Result::session_closed:
      return waits && closing_;
    case Result::too_large:
      return slot.phase == Phase::queued && just_submitted_ == event_.permit;
    case Result::other:
      return false;
  }
  return false;
}

// True if, at `now`, both timeouts together have passed since the request was first sent.
bool ClientSpec::exceeds_both_timeouts(const Slot& slot, Time now) const {
  return settings_.request_timeout != kNever && settings_.queue_timeout != kNever &&
         now >= slot.first + settings_.request_timeout + settings_.queue_timeout;
}

// True if the request was failed no earlier than its timeout allows.
bool ClientSpec::failed_in_time(const Slot& slot) const {
  if (event_.result == Result::no_path) {
    const bool idle = closing_ || connected_ == 0 || !counts_known_;
    return idle &&
           (settings_.queue_timeout == kNever ? !whole_ : event_.now >= slot.since + settings_.queue_timeout);
  }
  if (event_.result != Result::request_timeout || exceeds_both_timeouts(slot, event_.now)) return true;
  return settings_.request_timeout == kNever ? !whole_ : slot.since >= slot.sent + settings_.request_timeout;
}

void ClientSpec::complete() {
  Permit& permit = permit_at(event_.permit);
  bool open = false, in_time = true;
  const bool moved = permit.slot.step([&](const Slot& slot, auto& next) {
    open = open || slot.phase == Phase::queued || slot.phase == Phase::held ||
           slot.phase == Phase::answered || slot.phase == Phase::flying;
    if (!result_fits(slot)) return;
    in_time = in_time && failed_in_time(slot);
    next.push_back(Slot{});
    // If the request was failed after its path was lost, its permit stays unusable until the server can no
    // longer execute the old copy.
    if (slot.phase == Phase::held && event_.result != Result::session_closed)
      next.push_back(Slot{Phase::abandoned, false, slot.path, 0, slot.epoch, 0, 0, 0});
  });
  const auto seen = [&] { return "permit " + std::to_string(event_.permit) + " is completed"; };
  const auto allowed = [&] { return allowed_now(permit); };
  if (permit.slot.anything()) {
    permit.slot.set(Slot{});
  } else if (!moved) {
    context().check(false, open ? Rule::complete_result : Rule::complete_once, seen, allowed);
    permit.slot.set(Slot{});
  } else {
    context().check(in_time, Rule::no_path_early, seen, [] {
      return std::string(
          "no_path while no path is connected, after the queue timeout; request_timeout "
          "after the request's own");
    });
  }
  if (key_due_ && answered_ == event_.permit)
    context().check(false, Rule::key_stored, "the request is completed before its chunk's key is stored",
                    "StoreKey first");
  answered_ = answered_ == event_.permit ? std::nullopt : answered_;
}

void ClientSpec::failed_over() {
  Permit& permit = permit_at(event_.permit);
  const Path& from = path_at(event_.from);
  bool flying = false;
  bool late = true;
  std::uint32_t epoch = 0;
  const bool was_unknown = permit.slot.anything();
  Slot again{Phase::again, false, event_.to, 0, 0, 0, 0, 0};
  const bool moved = permit.slot.step([&](const Slot& slot, auto& next) {
    flying = flying || slot.phase == Phase::flying;
    if (slot.phase != Phase::held || slot.path != event_.from) return;
    epoch = slot.epoch;
    late = late && exceeds_both_timeouts(slot, slot.since);
    again.first = slot.first;
    next.push_back(again);
  });
  context().check(
      moved, flying ? Rule::replay_drained : Rule::request_once,
      [&] {
        return "permit " + std::to_string(event_.permit) + " is sent again, of path " +
               std::to_string(event_.from);
      },
      [&] { return allowed_now(permit); });
  if (was_unknown || !moved) permit.slot.set(again);
  if (was_unknown || !moved || !whole_) return;
  context().check(
      !late, Rule::replay_bound, [&] { return "permit " + std::to_string(event_.permit) + " is sent again"; },
      [] { return std::string("Complete as request_timeout"); });
  const bool unasked = (!from.fence && (settings_.kernel_peer_replays || from.state == PathState::absent)) ||
                       settings_.fence_failed_replays;
  context().check(
      event_.fenced ? from.proven >= epoch : unasked, Rule::replay_proof,
      [&] {
        return std::string(event_.fenced ? "sent again as proven, and nothing proves that incarnation "
                                         : "sent again without proof that incarnation ") +
               std::to_string(epoch) + " is dead";
      },
      [] { return std::string("an answered fence or a newer incarnation of the path first"); });
}

void ClientSpec::store_key() {
  if (!whole_ && path_at(event_.path).epoch == 0) return;
  const bool due = key_due_ && keyed_.key.path == event_.path && keyed_.chunk == event_.chunk &&
                   keyed_.rkey == event_.rkey;
  context().check(due, Rule::key_stored, "StoreKey of another key, path or chunk than RKEY_RSP brought",
                  key_due_ ? "the key of the RKEY_RSP" : "StoreKey after RKEY_RSP only");
  key_due_ = false;
}

// The path is drained: no response can arrive any more.
void ClientSpec::hold(unsigned path) {
  for (Permit& permit : permits_)
    permit.slot.step([&](Slot slot, auto& next) {
      if (slot.phase == Phase::flying && slot.path == path) {
        slot.phase = Phase::held;
        slot.since = event_.now;
      }
      next.push_back(slot);
    });
}

}  // namespace rtrs::spec
