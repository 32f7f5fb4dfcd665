// Paths of a client: connect, INFO exchange, loss of the path, fences.
#include "conformance/spec/client.hpp"
#include "conformance/spec/immediate.hpp"

namespace rtrs::spec {

namespace {

using S = PathState;

// Protocol section 4.1. `draining` is RECONNECTING while work is outstanding; `waiting` is the delay after
// that.
bool may_change(S from, S to) {
  switch (to) {
    case S::connecting:
      return from == S::absent || from == S::waiting || from == S::closed || from == S::draining ||
             from == S::closing;
    case S::connected:
      return from == S::connecting;
    case S::draining:
    case S::closing:
      return from == S::connecting || from == S::connected;
    case S::waiting:
      // State closing is possible: an operator requested a reconnect before the path had closed, and another
      // path is creating the session.
      return from == S::draining || from == S::absent || from == S::waiting || from == S::closed ||
             from == S::closing;
    case S::closed:
      return from == S::closing || from == S::draining || from == S::waiting || from == S::closed;
    case S::absent:
      return from == S::closing || from == S::draining || from == S::waiting || from == S::closed;
    case S::unknown:
      return false;
  }
  return false;
}

std::string changes_from(S from) {
  std::string text;
  for (const S to : {S::absent, S::connecting, S::connected, S::draining, S::waiting, S::closing, S::closed})
    if (may_change(from, to)) text += (text.empty() ? "PathChanged to " : ", ") + std::string(name_of(to));
  return text;
}

}  // namespace

void ClientSpec::must_end(Path& path, Rule rule) {
  if (path.state != S::connecting && path.state != S::connected) return;
  path.touched = path.must_end = true;
  path.must_end_rule = rule;
}

void ClientSpec::on_connection_input() {
  Path& path = path_at(event_.key.path);
  if (event_.key.epoch < path.epoch && path.epoch != 0) {
    context().check(false, Rule::connection_events, "an event of an older incarnation, which was closed",
                    "nothing more of it");
    return;
  }
  Connection* con = find(event_.key);
  if (con == nullptr) {
    context().check(!whole_, Rule::connection_events, "an event of a connection that was never asked for",
                    "Connect first");
    return forget_flights();
  }
  switch (event_.kind) {
    case Kind::AddressesFound:
      // No rule applies: the messages of an attempt do not show which address it uses.
      return;
    case Kind::Connected:
      return connected(path);
    case Kind::ConnectFailed:
      con->answered(context(), false);
      return must_end(path, Rule::path_teardown);
    case Kind::ConnectionLost:
      con->lost(context());
      return must_end(path, Rule::path_teardown);
    case Kind::ConnectionClosed:
      return con->closed(context());
    case Kind::PeerBroke:
      return must_end(path, Rule::peer_violation);
    case Kind::SendDone:
      con->heard(context());
      if (!path.probe) con->heard_at = event_.now;
      return con->completed(context());
    case Kind::InfoAccepted:
      con->heard(context());
      return info_accepted(path);
    case Kind::ImmReceived:
      con->heard(context());
      if (settings_.imm_consumes_receive && whole_) con->take_receive(context());
      return imm_received(path);
    default:
      break;
  }
  con->heard(context());
  con->take_receive(context());
  if (event_.kind == Kind::KeyedResponseReceived) keyed_response(path);
  if (event_.kind == Kind::KeyInvalidated) key_invalidated(path);
  if (event_.kind == Kind::FenceAnswered) fence_answered(path);
}

void ClientSpec::connected(Path& path) {
  Connection& con = *find(event_.key);
  if (con.phase() == Connection::Phase::ending || path.state != S::connecting) return;
  con.answered(context(), true);
  if (event_.key.con != 0) return;
  const bool changed = event_.queue_depth != queue_depth_ || event_.max_io_size != max_io_size_ ||
                       event_.max_hdr_size != max_hdr_size_;
  bool held = opened_ && queue_depth_ != 0;
  for (const Path& other : paths_)
    held = held ||
           (&other != &path && other.state == S::connecting && !other.cons.empty() && other.cons[0].up());
  if (held && changed) return must_end(path, Rule::depth_fixed);
  queue_depth_ = event_.queue_depth;
  max_io_size_ = event_.max_io_size;
  max_hdr_size_ = event_.max_hdr_size;
  path.fresh_keys = (event_.flags & kNewRkeyFlag) != 0;
  path.fence = (event_.flags & kFenceFlag) != 0 && (settings_.extensions & kFenceExtension) != 0;
  path.generations =
      (event_.flags & kGenerationFlag) != 0 && (settings_.extensions & kGenerationExtension) != 0;
  path.probe = (event_.flags & kProbeFlag) != 0 && (settings_.extensions & kProbeExtension) != 0;
  path.joins_data =
      (event_.flags & kDataWithAnswerFlag) != 0 && (settings_.extensions & kDataWithAnswerExtension) != 0;
}

void ClientSpec::info_accepted(Path& path) {
  if (event_.key.con != 0 || !path.info_sent) return must_end(path, Rule::peer_violation);
  find(event_.key)->take_receive(context());
  if (path.state != S::connecting) return;
  path.info_accepted = true;
}

void ClientSpec::connect() {
  Path& path = path_at(event_.key.path);
  const RuleContext at = context();
  if (event_.key.con == 0) {
    for (const Connection& con : path.cons)
      at.check(con.phase() == Connection::Phase::closed, Rule::connect_order,
               "a new attempt while a connection of the last is open",
               "Connect when every connection of the last attempt is closed");
    const bool first = path.epoch == 0;
    at.check(first || (event_.key.epoch > path.epoch && newer(event_.recon_cnt, path.recon_cnt)),
             Rule::connect_attempt, "an attempt without a new incarnation and a higher reconnect counter",
             "the next of both");
    at.check(!path.came_up || event_.first_conn, Rule::first_conn, "first_conn is clear in a later attempt",
             "first_conn set");
    path.cons.clear();
    path.epoch = event_.key.epoch;
    path.cid_num = event_.cid_num;
    path.recon_cnt = event_.recon_cnt;
    path.info_sent = false;
    path.attempted = true;
  } else {
    if (path.epoch == 0) return;  // the attempt began before the trace
    const bool next = event_.key.con == path.cons.size() && !path.cons.empty() && path.cons.back().up();
    at.check(
        next, Rule::connect_order, [&] { return "Connect of " + to_string(event_.key); },
        [&] { return "connection " + std::to_string(path.cons.size()) + ", when the one before is up"; });
    at.check(event_.key.epoch == path.epoch && event_.recon_cnt == path.recon_cnt &&
                 event_.cid_num == path.cid_num,
             Rule::connect_attempt, "a connection of another attempt than cid 0",
             "the cid_num and counter of cid 0");
    at.check(event_.first_conn, Rule::first_conn, "first_conn is clear above cid 0", "first_conn set");
    if (!next) return;
  }
  at.check(event_.key.con < event_.cid_num, Rule::connect_order, "a cid at or above cid_num",
           "cids below cid_num");
  path.cons.emplace_back(event_.key, Connection::Phase::asked);
}

void ClientSpec::disconnect() {
  if (Connection* con = find(event_.key)) con->disconnect(context(), Rule::path_teardown);
}

void ClientSpec::send_info() {
  Path& path = path_at(event_.key.path);
  Connection* con = find(event_.key);
  if (con == nullptr) return;
  bool all_up = path.cons.size() == path.cid_num;
  for (const Connection& one : path.cons) all_up = all_up && one.up();
  context().check(
      all_up && event_.key.con == 0 && !path.info_sent, Rule::info_full_set,
      [&] {
        return "INFO_REQ over " + to_string(event_.key) + " with " + std::to_string(path.cons.size()) +
               " of " + std::to_string(path.cid_num) + " connections";
      },
      [] { return std::string("one INFO_REQ over cid 0 when all are up"); });
  context().check(con->receives() > 0, Rule::receive_room, "INFO_REQ without a receive for its answer",
                  "PostReceive first");
  path.info_sent = true;
  if (con->live(context())) con->post(context(), 1, event_.cookie, settings_.send_depth);
}

void ClientSpec::path_changed() {
  Path& path = path_at(event_.path);
  const S from = path.state;
  const S to = event_.state;
  if (from != S::unknown)
    context().check(
        may_change(from, to), Rule::path_transition,
        [&] {
          return "path " + std::to_string(event_.path) + " changed from " + std::string(name_of(from)) +
                 " to " + std::string(name_of(to));
        },
        [&] { return changes_from(from); });
  if (to == S::connected && from != S::unknown)
    context().check(path.info_accepted, Rule::path_connected, "the path is connected without INFO_RSP",
                    "InfoAccepted first");
  // Another path has created the session. The next attempt of this path joins it.
  if (event_.reason == Reason::other_path_leads) {
    // This is checked only after state connecting: while a path drains, the other path may be lost again.
    if (from == S::connecting)
      context().check(connected_ > 0, Rule::first_conn, "a path gives way and no other is connected",
                      "the attempt goes on");
    path.came_up = false;
  }
  challenged(path, from, to);
  path.state = to;
  path.ended = path.ended || from == S::connecting || from == S::connected;
  if (to == S::connected) {
    opened_ = true;
    // All unconnected paths that have not joined a session join this one. If no other path is connected, this
    // path may have created a session on another server, which all unconnected paths must then join.
    const bool anew = connected_ == 0 && !path.came_up;
    for (auto& other : paths_)
      if (other.state != S::connected && (anew || !other.came_up)) other.came_up = false;
    path.came_up = true;
    if (path.epoch != 0 && path.proven < path.epoch - 1) path.proven = path.epoch - 1;
    path.heartbeat.start(event_.now, settings_);
    path.flying = 0;
    path.latency = 0;
    for (Connection& con : path.cons) con.heard_at = event_.now;
  } else {
    if (event_.reason == Reason::connection_silent && from == S::connected) check_silence(path);
    if (event_.reason == Reason::heartbeat_lost && from == S::connected) path.heartbeat.died(context());
    path.heartbeat.stop();
  }
  if (to == S::connected) ++connected_;
  if (from == S::connected && connected_ > 0) --connected_;
}

void ClientSpec::challenged(Path& path, S from, S to) {
  const bool asked = event_.reason == Reason::challenged;
  if (asked && from == S::connecting)
    context().check(!path.answers, Rule::challenge_once,
                    "the answer to a challenge is challenged and answered",
                    "a refusal, and another attempt later");
  if (to == S::waiting && from != S::unknown)
    context().check(!asked, Rule::challenge_once, "a challenged path waits", "its next attempt at once");
  if (to == S::connecting) path.answers = path.challenged;
  path.challenged = asked && to == S::draining;
}

void ClientSpec::link_changed() {
  if (link_)
    context().check(
        *link_ != event_.up && (!counts_known_ || event_.up == (connected_ > 0)), Rule::link_events,
        [&] {
          return std::string("link ") + (event_.up ? "up" : "down") + " with " + std::to_string(connected_) +
                 " connected paths";
        },
        [&] {
          return std::string(*link_ ? "LinkChanged down when the last path is lost"
                                    : "LinkChanged up with the first path");
        });
  link_ = event_.up;
}

void ClientSpec::release_path() {
  Path& path = path_at(event_.path);
  for (const Connection& con : path.cons)
    context().check(
        con.phase() == Connection::Phase::closed, Rule::release_drained,
        [&] { return "the path is released while " + to_string(con.key()) + " is not closed"; },
        [] { return std::string("ConnectionClosed of all its connections first"); });
  hold(event_.path);
}

void ClientSpec::end_session() {
  for (unsigned index = 0; index < paths_.size(); ++index) {
    const S state = paths_[index].state;
    context().check(
        state == S::absent || state == S::closed || state == S::unknown, Rule::end_clean,
        [&] { return "path " + std::to_string(index) + " is " + std::string(name_of(state)); },
        [] { return std::string("EndSession when all paths are closed"); });
  }
  for (std::size_t id = 0; id < permits_.size(); ++id)
    context().check(
        permits_[id].slot.any(
            [](const Slot& slot) { return slot.phase == Phase::free || slot.phase == Phase::abandoned; }),
        Rule::end_clean, [&] { return "permit " + std::to_string(id) + " is in use"; },
        [] { return std::string("Complete of every request first"); });
  ended_ = true;
}

void ClientSpec::fence_asked() {
  Path& over = path_at(event_.key.path);
  Path& target = path_at(event_.path);
  const bool known = over.epoch != 0 && target.epoch != 0;
  const bool lost = event_.recon_cnt == target.recon_cnt
                        ? target.state != S::connected && target.state != S::connecting
                        : newer(target.recon_cnt, event_.recon_cnt);
  if (known)
    context().check(
        event_.key.con == 0 && event_.key.path != event_.path && over.state == S::connected && over.fence &&
            lost,
        Rule::fence_request,
        [&] {
          return "a fence for path " + std::to_string(event_.path) + " attempt " +
                 std::to_string(event_.recon_cnt) + " over " + to_string(event_.key);
        },
        [] {
          return std::string(
              "a fence for a lost incarnation, over cid 0 of another connected path that granted it");
        });
  const std::uint32_t behind = static_cast<std::uint16_t>(target.recon_cnt - event_.recon_cnt);
  questions_.push_back({event_.key, event_.serial, event_.path, target.epoch - behind});
  if (Connection* con = find(event_.key); con != nullptr && con->live(context()))
    con->post(context(), 1, event_.cookie, settings_.send_depth);
}

void ClientSpec::fence_answered(Path& path) {
  if (path.state != S::connected) return;
  path.heartbeat.received(false);
  if (Connection* con = find(event_.key)) con->heard_at = event_.now;
  for (std::size_t at = 0; at < questions_.size(); ++at) {
    const Question question = questions_[at];
    if (question.serial != event_.serial || question.over != event_.key) continue;
    questions_.erase(questions_.begin() + static_cast<std::ptrdiff_t>(at));
    Path& target = path_at(question.path);
    if (event_.error == 0 && target.proven < question.epoch) target.proven = question.epoch;
    return;
  }
}

}  // namespace rtrs::spec
