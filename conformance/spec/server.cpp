#include "conformance/spec/server.hpp"

#include <algorithm>

namespace rtrs::spec {

ServerSpec::ServerSpec(Findings& findings, unsigned machine, const Settings* settings)
    : findings_(findings),
      machine_(machine),
      whole_(settings != nullptr),
      counts_known_(settings != nullptr) {
  if (settings == nullptr) return;
  settings_ = *settings;
  link_ = false;
  unused_.state = PathState::absent;
}

Connection* ServerSpec::find(const Key& key) {
  Path& path = path_at(key.path);
  if (key.con >= path.cons.size() || path.cons[key.con].key() != key) return nullptr;
  return &path.cons[key.con];
}

void ServerSpec::on(const Event& event) {
  const EventClass category = class_of(event.kind);
  if (category != EventClass::input && category != EventClass::action) return;
  if (category == EventClass::action) {
    event_ = event;
    context().check(!ended_, Rule::end_clean, "an action after EndSession", "nothing more");
    return action();
  }
  end_step(continued_ && event.kind != Kind::Continued);
  continued_ = event.kind == Kind::Continued;
  const bool later = event.now > event_.now;
  event_ = event;
  began_ = true;
  for (Path& path : paths_) {
    path.heartbeat.time_passed(context(), event.now);
    if (!later || !path.overdue) continue;
    context().check(path.state != PathState::connecting, Rule::half_open,
                    "a half-open path outlived the handshake timeout",
                    "PathChanged to closing at the deadline");
    path.overdue = false;
  }
  input();
}

void ServerSpec::finish() {
  end_step(continued_);
}

void ServerSpec::must_end(Path& path, Rule rule) {
  if (path.state != PathState::connecting && path.state != PathState::connected) return;
  path.touched = path.must_end = true;
  path.must_end_rule = rule;
}

void ServerSpec::input() {
  switch (event_.kind) {
    case Kind::ConnectRequested:
      connect_ = event_;
      return;
    case Kind::Responded:
      return responded();
    case Kind::DeadlineReached:
      for (Path& path : paths_) {
        path.touched = true;
        path.heartbeat.deadline(event_.now);
        path.overdue = path.state == PathState::connecting && event_.now >= path.deadline;
      }
      return;
    case Kind::PathDisconnectRequested:
    case Kind::CloseRequested:
    case Kind::Continued:
      return;
    default:
      return on_connection_input();
  }
}

void ServerSpec::action() {
  switch (event_.kind) {
    case Kind::Accept:
      return accept();
    case Kind::Reject:
      context().check((connect_.has_value() && connect_->request == event_.request) || !(whole_ || began_),
                      Rule::connect_answered, "a rejection of a request that is not waiting",
                      "one answer to each connect request");
      context().check(event_.error != 0, Rule::reject_errno, "a rejection without an errno",
                      "a positive errno");
      connect_.reset();
      return;
    case Kind::Disconnect:
      if (Connection* con = find(event_.key)) con->disconnect(context(), Rule::path_teardown);
      return;
    case Kind::PathChanged:
      return path_changed();
    case Kind::LinkChanged:
      return link_changed();
    case Kind::ReleasePath:
      return release_path();
    case Kind::EndSession:
      return end_session();
    case Kind::SendInfoRsp:
      return send_info();
    case Kind::SendFenceRsp:
      return send_fence_answer();
    case Kind::InvalidateChunk:
      return invalidate_chunk();
    case Kind::Deliver:
      return deliver();
    case Kind::PostResponse:
      return post_response();
    case Kind::PostImm:
      return post_imm();
    case Kind::ProbeDelivery:
      return probe_delivery();
    case Kind::PostReceive:
      if (Connection* con = find(event_.key); con != nullptr && con->live(context()))
        con->post_receives(event_.count);
      return;
    default:
      return;
  }
}

void ServerSpec::end_step(bool continued) {
  if (!began_) return;
  context().check(!connect_.has_value(), Rule::connect_answered, "a connect request was not answered",
                  "Accept or Reject");
  connect_.reset();
  for (unsigned index = 0; index < paths_.size(); ++index)
    if (paths_[index].touched) end_path_step(paths_[index], index, continued);
  chunks_end_step();
  if (!counts_known_ || !link_) return;
  context().check(
      *link_ == (connected_ > 0), Rule::link_events,
      [&] {
        return std::to_string(connected_) + " paths are connected and the link was not said to be " +
               (*link_ ? "down" : "up");
      },
      [] { return std::string("LinkChanged"); });
  link_ = connected_ > 0;
}

void ServerSpec::end_path_step(Path& path, unsigned index, bool continued) {
  const bool alive = path.state == PathState::connecting || path.state == PathState::connected;
  if (path.must_end)
    context().check(
        !alive, path.must_end_rule,
        [&] { return "path " + std::to_string(index) + " goes on as " + std::string(name_of(path.state)); },
        [] { return std::string("PathChanged to closing, with Disconnect of its connections"); });
  // If the path has more connections than one step processes, only the last of its steps is judged.
  const bool judged = continued || path.cons.size() <= kConsAStep;
  if (judged && path.ended && !alive)
    for (const Connection& con : path.cons)
      context().check(
          !con.open(), Rule::path_teardown,
          [&] {
            return "path " + std::to_string(index) + " was closed and " + to_string(con.key()) + " goes on";
          },
          [] { return std::string("Disconnect of every connection of the path"); });
  if (judged && path.info_asked)
    context().check(path.state != PathState::connecting, Rule::info_answer,
                    "INFO_REQ was neither answered nor refused", "SendInfoRsp, or the end of the path");
  path.must_end = false;
  path.ended = path.ended && !judged && !alive;
  path.info_asked = path.info_asked && !judged && path.state == PathState::connecting;
  path.touched = path.ended || path.info_asked;
  if (whole_ && path.state == PathState::connected)
    for (Connection& con : path.cons)
      con.balance(context(), settings_.imm_consumes_receive ? settings_.depth : 0);
  if (path.heartbeat.running())
    path.heartbeat.end_step(context(), !path.cons.empty() && path.cons[0].has_room(settings_.send_depth));
  for (Connection& con : path.cons) {
    context().check(!con.owes_ack || !con.up() || !con.has_room(settings_.send_depth), Rule::hb_ack_due,
                    "no HB_ACK over a connection that was probed, although the send queue has room",
                    "PostImm of HB_ACK");
  }
}

}  // namespace rtrs::spec
