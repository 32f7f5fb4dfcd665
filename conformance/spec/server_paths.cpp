// Paths of a server session: connect requests, INFO exchange, fences, close.
#include <algorithm>

#include "conformance/spec/immediate.hpp"
#include "conformance/spec/server.hpp"

namespace rtrs::spec {

namespace {
using S = PathState;
}  // namespace

void ServerSpec::on_connection_input() {
  Path& path = path_at(event_.key.path);
  Connection* con = find(event_.key);
  if (con == nullptr) {
    context().check(!whole_, Rule::connection_events, "an event of a connection that is not there",
                    "Accept first");
    return;
  }
  switch (event_.kind) {
    case Kind::ConnectionLost:
      con->lost(context());
      return must_end(path, Rule::path_teardown);
    case Kind::ConnectionClosed:
      con->closed(context());
      must_end(path, Rule::path_teardown);
      return chunk_invalidated();
    case Kind::PeerBroke:
      return must_end(path, Rule::peer_violation);
    case Kind::SendDone:
      con->heard(context());
      con->heard_at = event_.now;
      return con->completed(context());
    case Kind::ChunkInvalidated:
      return chunk_invalidated();
    case Kind::InfoRequested:
      con->heard(context());
      con->take_receive(context());
      return info_requested(path);
    case Kind::FenceRequested:
      con->heard(context());
      con->take_receive(context());
      return fence_requested(path);
    case Kind::ImmReceived:
      con->heard(context());
      if (settings_.imm_consumes_receive) con->take_receive(context());
      return imm_received(path);
    case Kind::RequestArrived:
      con->heard(context());
      if (settings_.imm_consumes_receive) con->take_receive(context());
      return request_arrived(path);
    default:
      return;
  }
}

void ServerSpec::info_requested(Path& path) {
  if (path.state != S::connecting) return must_end(path, Rule::peer_violation);
  bool complete = event_.key.con == 0;
  for (const Connection& con : path.cons) complete = complete && con.up();
  if (!complete || event_.error != 0) return must_end(path, Rule::info_answer);
  path.info_asked = true;
}

void ServerSpec::accept() {
  const RuleContext at = context();
  const bool asked =
      connect_.has_value() && connect_->key == event_.key && connect_->request == event_.request;
  at.check(asked || !(whole_ || began_), Rule::connect_answered, "an accept of a request that is not waiting",
           "one answer to each connect request");
  if (!asked) return;
  const Event in = *connect_;
  connect_.reset();
  Path& path = path_at(in.key.path);
  if (path.state == S::unknown) return;
  at.check(
      path.state == S::connecting && path.uuid == in.uuid && path.recon_cnt == in.recon_cnt,
      Rule::accept_attempt,
      [&] {
        return "attempt " + std::to_string(in.recon_cnt) + " is accepted into a path that is " +
               std::string(name_of(path.state)) + " with attempt " + std::to_string(path.recon_cnt);
      },
      [] {
        return std::string("Reject: busy while an older incarnation lives, stale for an older attempt");
      });
  for (const Path& other : paths_) {
    if (&other == &path || other.state == S::absent || other.state == S::unknown) continue;
    at.check(other.uuid != in.uuid, Rule::accept_attempt,
             "a path is accepted a second time under another number", "Reject");
    at.check(other.address_pair != in.address_pair, Rule::accept_address, "two paths with the same addresses",
             "Reject with EEXIST");
  }
  const bool fits = in.key.con < in.cid_num && in.cid_num == path.cons.size() &&
                    path.cons[in.key.con].phase() == Connection::Phase::closed;
  at.check(
      fits, Rule::accept_cid,
      [&] {
        return "cid " + std::to_string(in.key.con) + " of " + std::to_string(in.cid_num) + " is accepted";
      },
      [] { return std::string("each cid once, with the cid_num of the first"); });
  if (in.key.con < path.cons.size()) path.cons[in.key.con] = Connection(in.key, Connection::Phase::up);
  if (!whole_) return;  // the flags depend on the settings
  const std::uint8_t both = in.extensions & settings_.extensions;
  const std::uint32_t expected = (settings_.always_invalidate ? kNewRkeyFlag : 0) |
                                 ((both & kFenceExtension) != 0 ? kFenceFlag : 0) |
                                 ((both & kGenerationExtension) != 0 ? kGenerationFlag : 0) |
                                 ((both & kProbeExtension) != 0 ? kProbeFlag : 0) |
                                 ((both & kKeysStayExtension) != 0 ? kKeysStayFlag : 0) |
                                 ((both & kDataWithAnswerExtension) != 0 ? kDataWithAnswerFlag : 0);
  at.check(
      event_.flags == expected, Rule::accept_flags, [&] { return "flags " + std::to_string(event_.flags); },
      [&] { return "flags " + std::to_string(expected); });
}

void ServerSpec::path_changed() {
  Path& path = path_at(event_.path);
  const S from = path.state;
  const S to = event_.state;
  const bool allowed = (from == S::absent && to == S::connecting) ||
                       (from == S::connecting && (to == S::connected || to == S::closing)) ||
                       (from == S::connected && to == S::closing) ||
                       (from == S::closing && to == S::absent) || from == S::unknown;
  context().check(
      allowed, Rule::path_transition,
      [&] {
        return "path " + std::to_string(event_.path) + " changed from " + std::string(name_of(from)) +
               " to " + std::string(name_of(to));
      },
      [] { return std::string("absent, connecting, connected, closing, absent; or connecting, closing"); });
  path.state = to;
  path.ended = path.ended || to == S::closing;
  if (to == S::connecting) {
    path.incarnation = ++next_incarnation_;
    path.cons.clear();
    path.info_sent = path.overdue = false;
    if (connect_) {
      path.cons.resize(connect_->cid_num);
      path.recon_cnt = connect_->recon_cnt;
      path.uuid = connect_->uuid;
      path.address_pair = connect_->address_pair;
      path.extensions = connect_->extensions & settings_.extensions;
      path.deadline =
          settings_.handshake_timeout == kNever ? kNever : event_.now + settings_.handshake_timeout;
    } else {
      context().check(!(whole_ || began_), Rule::path_transition, "a path begins without a connect request",
                      "ConnectRequested first");
    }
  }
  if (to == S::connected) {
    path.heartbeat.start(event_.now, settings_);
    for (Connection& con : path.cons) con.heard_at = event_.now;
  }
  if (to == S::closing) {
    if (event_.reason == Reason::connection_silent) check_silence(path);
    if (event_.reason == Reason::heartbeat_lost && from == S::connected) path.heartbeat.died(context());
    path.heartbeat.stop();
    drop_path_users(event_.path);
    std::erase_if(questions_,
                  [&](const Question& question) { return question.asker.path % kPaths == event_.path; });
  }
  if (to == S::connected) ++connected_;
  if (from == S::connected && connected_ > 0) --connected_;
}

void ServerSpec::link_changed() {
  if (link_)
    context().check(
        *link_ != event_.up && (!counts_known_ || event_.up == (connected_ > 0)), Rule::link_events,
        [&] {
          return std::string("link ") + (event_.up ? "up" : "down") + " with " + std::to_string(connected_) +
                 " connected paths";
        },
        [] { return std::string("LinkChanged when the first path connects and when the last one closes"); });
  link_ = event_.up;
}

void ServerSpec::release_path() {
  Path& path = path_at(event_.path);
  for (const Connection& con : path.cons)
    context().check(
        con.phase() == Connection::Phase::closed, Rule::release_drained,
        [&] { return "the path is released while " + to_string(con.key()) + " is not closed"; },
        [] { return std::string("ConnectionClosed of all its connections first"); });
  if (path.state != S::unknown) path_released(event_.path % kPaths, path.incarnation);
}

void ServerSpec::end_session() {
  for (unsigned index = 0; index < paths_.size(); ++index)
    context().check(
        paths_[index].state == S::absent || paths_[index].state == S::unknown, Rule::end_clean,
        [&] { return "path " + std::to_string(index) + " is " + std::string(name_of(paths_[index].state)); },
        [] { return std::string("EndSession when all paths are absent"); });
  ended_ = true;
}

void ServerSpec::send_info() {
  Path& path = path_at(event_.key.path);
  Connection* con = find(event_.key);
  if (con == nullptr) return;
  bool complete = event_.key.con == 0;
  for (const Connection& one : path.cons) complete = complete && one.up();
  context().check(complete && path.info_asked && !path.info_sent, Rule::info_answer,
                  "INFO_RSP without a valid INFO_REQ over a full set of connections",
                  "INFO_RSP once, to an INFO_REQ over cid 0 of a full set");
  path.info_sent = true;
  if (con->live(context())) con->post(context(), 1, event_.cookie, settings_.send_depth);
}

void ServerSpec::fence_requested(Path& path) {
  const unsigned asker = event_.key.path % kPaths;
  const bool granted = !whole_ || (path.extensions & kFenceExtension) != 0;
  if (path.state != S::connected || event_.key.con != 0 || !granted)
    return must_end(path, Rule::peer_violation);
  path.heartbeat.received(false);
  Question question{event_.key, event_.serial, event_.uuid, kPaths, 0};
  for (unsigned index = 0; index < paths_.size(); ++index) {
    const Path& target = paths_[index];
    if (target.state == S::absent || target.state == S::unknown || target.uuid != event_.uuid) continue;
    if (newer(target.recon_cnt, event_.recon_cnt)) continue;
    question.target = index;
    question.incarnation = target.incarnation;
  }
  if (question.target == asker) return must_end(path, Rule::peer_violation);
  std::erase_if(questions_, [&](const Question& other) {
    return other.asker == question.asker && other.uuid == question.uuid;
  });
  questions_.push_back(question);
  if (question.target < kPaths) must_end(paths_[question.target], Rule::fence_obeyed);
}

void ServerSpec::send_fence_answer() {
  const auto found = std::find_if(questions_.begin(), questions_.end(), [&](const Question& question) {
    return question.asker == event_.key && question.serial == event_.serial && question.uuid == event_.uuid;
  });
  if (found == questions_.end()) {
    context().check(!whole_, Rule::fence_proof, "an answer to no fence that is open",
                    "one answer to each FenceRequested");
  } else {
    const bool gone = found->target >= kPaths || paths_[found->target].state == S::absent ||
                      paths_[found->target].incarnation != found->incarnation;
    context().check(gone || event_.error != 0, Rule::fence_proof,
                    "a fence is answered while the incarnation is not drained",
                    "SendFenceRsp after the path is released");
    questions_.erase(found);
  }
  if (Connection* con = find(event_.key); con != nullptr && con->live(context()))
    con->post(context(), 1, event_.cookie, settings_.send_depth);
}

void ServerSpec::post_imm() {
  const RuleContext at = context();
  const unsigned type = imm_type(event_.imm);
  Path& path = path_at(event_.key.path);
  Connection* con = find(event_.key);
  const bool probed = event_.key.con != 0 && type == kHbAck && probes(path);
  at.check(
      (probed || event_.key.con == 0) && (type == kHbMsg || type == kHbAck) && imm_payload(event_.imm) == 0,
      Rule::hb_connection,
      [&] { return "immediate " + std::to_string(event_.imm) + " over " + to_string(event_.key); },
      [] {
        return std::string("HB_MSG or HB_ACK over cid 0; HB_ACK over others where the probe is agreed");
      });
  if (probed && con != nullptr) {
    at.check(con->owes_ack || !whole_, Rule::hb_ack, "an HB_ACK without an HB_MSG over that connection",
             "one HB_ACK for each HB_MSG");
    con->owes_ack = false;
  }
  if (!probed && type == kHbMsg) path.heartbeat.message(at, false);
  if (!probed && type == kHbAck) path.heartbeat.acknowledgement(at);
  if (con != nullptr && con->live(at)) con->post(at, 1, event_.cookie, settings_.send_depth);
}

void ServerSpec::probe_delivery() {
  const RuleContext at = context();
  const Path& path = path_at(event_.key.path);
  const bool agreed = whole_ && probes(path);
  at.check(
      !agreed && settings_.probe_deliveries, Rule::probe_delivery,
      [&] { return "over " + to_string(event_.key); },
      [] { return std::string("while the probe is not agreed and completions prove delivery"); });
  if (Connection* con = find(event_.key); con != nullptr && con->live(at))
    con->post(at, 1, event_.cookie, settings_.send_depth);
}

// The path was declared lost because one of its connections delivered nothing.
void ServerSpec::check_silence(const Path& path) {
  if (settings_.heartbeat_interval == 0) return;
  const Time least = (settings_.heartbeat_missed_max + 1) * settings_.heartbeat_interval;
  bool silent = !whole_;
  for (const Connection& con : path.cons) silent = silent || event_.now >= con.heard_at + least;
  const bool agreed = whole_ && probes(path);
  context().check(
      settings_.probe_deliveries && !agreed && silent, Rule::probe_dead_early,
      "a path is given up for a silent connection, and completions came on every connection of it",
      "no completion for more than the tolerated intervals on one of them");
}

bool ServerSpec::probes(const Path& path) const noexcept {
  return !whole_ || (path.extensions & kProbeExtension) != 0;
}

void ServerSpec::imm_received(Path& path) {
  if (path.state == S::closing || path.state == S::unknown) return;
  const unsigned type = imm_type(event_.imm);
  if (path.state != S::connected || (type != kHbMsg && type != kHbAck))
    return must_end(path, Rule::peer_violation);
  const bool probe = event_.key.con != 0 && type == kHbMsg && whole_ && probes(path);
  path.heartbeat.received(type == kHbMsg && !probe);
  if (Connection* con = find(event_.key); probe && con != nullptr) con->owes_ack = true;
}

}  // namespace rtrs::spec
