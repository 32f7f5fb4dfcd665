#include "conformance/spec/client.hpp"

#include <algorithm>

namespace rtrs::spec {

ClientSpec::ClientSpec(Findings& findings, unsigned machine, const Settings* settings)
    : findings_(findings),
      machine_(machine),
      whole_(settings != nullptr),
      counts_known_(settings != nullptr) {
  // If the settings are unknown, assumes that the client requested every extension that the server grants.
  settings_.extensions = 0xff;
  if (settings == nullptr) return;
  settings_ = *settings;
  link_ = false;
}

ClientSpec::Path& ClientSpec::path_at(unsigned index) {
  if (index >= kPaths) index = kPaths - 1;
  while (paths_.size() <= index) {
    paths_.emplace_back();
    if (whole_) paths_.back().state = PathState::absent;
  }
  paths_[index].touched = true;
  return paths_[index];
}

// Returns null for a connection of an attempt whose beginning was not seen.
Connection* ClientSpec::find(const Key& key) {
  Path& path = path_at(key.path);
  if (path.epoch != key.epoch || key.con >= path.cons.size()) return nullptr;
  return &path.cons[key.con];
}

ClientSpec::Permit& ClientSpec::permit_at(std::uint16_t id) {
  while (permits_.size() <= id) {
    permits_.emplace_back();
    if (whole_) permits_.back().slot.set(Slot{});
  }
  return permits_[id];
}

// Maximum number of permits in use; 0: unknown.
std::uint16_t ClientSpec::depth() const noexcept {
  if (queue_depth_ == 0 || settings_.depth == 0) return queue_depth_;
  return std::min(queue_depth_, settings_.depth);
}

void ClientSpec::on(const Event& event) {
  const EventClass category = class_of(event.kind);
  if (category != EventClass::input && category != EventClass::action) return;
  if (category == EventClass::input) {
    end_step(continued_ && event.kind != Kind::Continued);
    continued_ = event.kind == Kind::Continued;
    event_ = event;
    began_ = true;
    for (Path& path : paths_) path.heartbeat.time_passed(context(), event.now);
    return input();
  }
  event_ = event;
  context().check(!ended_, Rule::end_clean, "an action after EndSession", "nothing more");
  action();
}

void ClientSpec::finish() {
  end_step(continued_);
}

void ClientSpec::input() {
  switch (event_.kind) {
    case Kind::PathAdded:
      path_at(event_.path).attempted = path_at(event_.path).came_up = false;
      return;
    case Kind::CloseRequested:
      closing_ = true;
      return;
    case Kind::Submitted:
      return submitted();
    case Kind::DeadlineReached:
      for (Path& path : paths_) {
        path.touched = true;
        path.heartbeat.deadline(event_.now);
      }
      note_outstanding();
      return;
    case Kind::PathRemoveRequested:
    case Kind::PathDisconnectRequested:
    case Kind::PathReconnectRequested:
      // An operator's request for the path cancels the pending challenge.
      if (event_.path < paths_.size()) paths_[event_.path].challenged = false;
      return;
    case Kind::AttemptsChanged:
    case Kind::Continued:
      return;
    case Kind::PolicyChanged:
      settings_.policy = event_.policy;
      return;
    default:
      return on_connection_input();
  }
}

void ClientSpec::action() {
  switch (event_.kind) {
    case Kind::Connect:
      return connect();
    case Kind::Disconnect:
      return disconnect();
    case Kind::SendInfoReq:
      return send_info();
    case Kind::PathChanged:
      return path_changed();
    case Kind::LinkChanged:
      return link_changed();
    case Kind::ReleasePath:
      return release_path();
    case Kind::EndSession:
      return end_session();
    case Kind::SendFenceReq:
      return fence_asked();
    case Kind::PostRequest:
      return post_request();
    case Kind::Complete:
      return complete();
    case Kind::FailedOver:
      return failed_over();
    case Kind::StoreKey:
      return store_key();
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

// Reports the actions that the step was required to take but did not.
void ClientSpec::end_step(bool continued) {
  if (!began_) return;
  if (answered_) {
    Permit& permit = permit_at(*answered_);
    const bool open = permit.slot.all([](const Slot& slot) { return slot.phase == Phase::answered; });
    context().check(
        !open, Rule::complete_at_response,
        [&] { return "the response for permit " + std::to_string(*answered_) + " completed nothing"; },
        [] { return std::string("Complete of that permit"); });
    if (open) permit.slot.set(Slot{});
  }
  answered_.reset();
  just_submitted_.reset();
  context().check(!key_due_, Rule::key_stored, "the key of RKEY_RSP was not stored", "StoreKey");
  key_due_ = false;
  for (unsigned index = 0; index < paths_.size(); ++index)
    if (paths_[index].touched) end_path_step(paths_[index], index, continued);
  if (counts_known_ && link_) {
    context().check(
        *link_ == (connected_ > 0), Rule::link_events,
        [&] {
          return std::to_string(connected_) + " paths are connected and the link was not said to be " +
                 (*link_ ? "down" : "up");
        },
        [] { return std::string("LinkChanged"); });
    link_ = connected_ > 0;
  }
}

void ClientSpec::end_path_step(Path& path, unsigned index, bool continued) {
  const bool alive = path.state == PathState::connecting || path.state == PathState::connected;
  if (path.must_end)
    context().check(
        !alive, path.must_end_rule,
        [&] { return "path " + std::to_string(index) + " goes on as " + std::string(name_of(path.state)); },
        [] { return std::string("PathChanged to draining or closing, with Disconnect of its connections"); });
  // If the path has more connections than one step processes, only the last of its steps is judged.
  const bool judged = continued || path.cons.size() <= kConsAStep;
  if (judged && path.ended && !alive)
    for (const Connection& con : path.cons)
      context().check(
          !con.open(), Rule::path_teardown,
          [&] {
            return "path " + std::to_string(index) + " was lost and " + to_string(con.key()) + " goes on";
          },
          [] { return std::string("Disconnect of every connection of the path"); });
  if (judged && path.info_accepted)
    context().check(path.state != PathState::connecting, Rule::path_connected,
                    "INFO_RSP was accepted and the path is not connected", "PathChanged to connected");
  path.must_end = false;
  path.ended = path.ended && !judged && !alive;
  path.info_accepted = path.info_accepted && !judged && path.state == PathState::connecting;
  path.touched = path.ended || path.info_accepted;
  if (whole_ && path.state == PathState::connected)
    for (Connection& con : path.cons) con.balance(context(), settings_.imm_consumes_receive ? depth() : 0);
  if (path.heartbeat.running())
    path.heartbeat.end_step(context(), !path.cons.empty() && path.cons[0].has_room(settings_.send_depth));
}

}  // namespace rtrs::spec
