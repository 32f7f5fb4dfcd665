// Heartbeats and probes of a client.
#include <algorithm>
#include <string>

#include "conformance/spec/client.hpp"
#include "conformance/spec/immediate.hpp"

namespace rtrs::spec {

// True if a request is in flight on the connection, or a fence that was sent on it is unanswered.
bool ClientSpec::outstanding(const Key& key) const {
  const auto flies = [&key](const Slot& slot) {
    return slot.phase == Phase::flying && slot.path == key.path && slot.con == key.con &&
           slot.epoch == key.epoch;
  };
  return std::any_of(permits_.begin(), permits_.end(),
                     [&](const Permit& permit) { return permit.slot.any(flies); }) ||
         std::any_of(questions_.begin(), questions_.end(),
                     [&key](const Question& question) { return question.over == key; });
}

// Sets `was_outstanding` of every connection to outstanding(), in one pass.
void ClientSpec::note_outstanding() {
  const bool unknown = std::any_of(permits_.begin(), permits_.end(),
                                   [](const Permit& permit) { return permit.slot.anything(); });
  for (Path& path : paths_)
    for (Connection& con : path.cons) con.was_outstanding = unknown;
  if (unknown) return;
  const auto note = [this](const Key& key) {
    if (key.path >= paths_.size() || key.con >= paths_[key.path].cons.size()) return;
    Connection& con = paths_[key.path].cons[key.con];
    if (con.key() == key) con.was_outstanding = true;
  };
  for (const Permit& permit : permits_)
    for (const Slot& slot : permit.slot.states())
      if (slot.phase == Phase::flying) note(Key{slot.path, slot.con, slot.epoch});
  for (const Question& question : questions_) note(question.over);
}

void ClientSpec::post_imm() {
  const RuleContext at = context();
  const unsigned type = imm_type(event_.imm);
  Path& path = path_at(event_.key.path);
  Connection* con = find(event_.key);
  const bool may_probe = type == kHbMsg && (path.probe || path.epoch == 0);
  at.check((may_probe || event_.key.con == 0) && (type == kHbMsg || type == kHbAck) &&
               imm_payload(event_.imm) == 0,
           Rule::hb_connection,
           [&] { return "immediate " + std::to_string(event_.imm) + " over " + to_string(event_.key); },
           [] {
             return std::string("HB_MSG or HB_ACK over cid 0; HB_MSG over others where the probe is agreed");
           });
  if (event_.key.con == 0) {
    if (type == kHbMsg) path.heartbeat.message(at, path.probe && outstanding(event_.key));
    if (type == kHbAck) path.heartbeat.acknowledgement(at);
  } else if (con != nullptr) {
    at.check((outstanding(event_.key) || con->was_outstanding) && !con->unanswered, Rule::probe_due,
             con->unanswered ? "a probe while another has no answer" : "a probe without anything outstanding",
             "one HB_MSG at a time while a request is in flight on the connection");
    con->unanswered = true;
  }
  if (con != nullptr && con->live(at)) con->post(at, 1, event_.cookie, settings_.send_depth);
}

void ClientSpec::probe_delivery() {
  const RuleContext at = context();
  const Path& path = path_at(event_.key.path);
  at.check((path.epoch == 0 || !path.probe) && settings_.probe_deliveries, Rule::probe_delivery,
           [&] { return "over " + to_string(event_.key); },
           [] { return std::string("while the probe is not agreed and completions prove delivery"); });
  Connection* con = find(event_.key);
  at.check(outstanding(event_.key) || (con != nullptr && con->was_outstanding), Rule::probe_due,
           "a probe without anything outstanding", "while a request is in flight on the connection");
  if (con != nullptr && con->live(at)) con->post(at, 1, event_.cookie, settings_.send_depth);
}

// The path was declared lost because one of its connections delivered nothing.
void ClientSpec::check_silence(const Path& path) {
  if (settings_.heartbeat_interval == 0) return;
  const Time least = (settings_.heartbeat_missed_max + 1) * settings_.heartbeat_interval;
  bool silent = path.epoch == 0;
  for (const Connection& con : path.cons) {
    Time since = kNever;
    for (const Permit& permit : permits_) {
      if (permit.slot.anything()) silent = true;
      for (const Slot& slot : permit.slot.states())
        if (slot.phase == Phase::flying && slot.path == con.key().path && slot.con == con.key().con &&
            slot.epoch == con.key().epoch)
          since = std::min(since, slot.sent);
    }
    for (const Question& question : questions_)
      if (question.over == con.key()) since = 0;
    silent = silent || (since != kNever && event_.now >= std::max(since, con.heard_at) + least);
  }
  context().check((path.probe || settings_.probe_deliveries) && silent, Rule::probe_dead_early,
                  "a path is given up for a silent connection, and every connection of it that has something "
                  "outstanding was heard of",
                  "silence of more than the tolerated intervals on one of them");
}

}  // namespace rtrs::spec
