#include "conformance/spec/wire.hpp"

#include <algorithm>
#include <utility>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/connection.hpp"
#include "conformance/spec/immediate.hpp"

namespace rtrs::spec {

void WireSpec::begin(unsigned machine, const Event& event) {
  if (event.kind == Kind::End || event.kind == Kind::BeginServerRegistry) return;
  Recording& recording = recordings_[machine];
  judge_held(machine);
  counts_.add(recording.counts);
  recording = Recording{};
  recording.side_known = recording.machine = true;
  recording.client = event.kind == Kind::BeginClient;
  recording.sees_data = !recording.client;
  recording.settings = event.settings;
}

// Messages of this connection are missing from the capture, so their effects are unknown. The missing
// messages may have been sent at any time since the last message in their direction, so findings in the other
// direction since then are withdrawn too.
void WireSpec::gap() {
  ++of_->counts.gaps;
  const auto found = of_->connections.find(event_->key);
  if (found == of_->connections.end()) return;
  of_->counts.excused += of_->found.remove_since(found->second.last_seq[event_->sent ? 0 : 1],
                                                 [](const Finding& one) { return order_matters(one.rule); });
  Path& path = of_->paths[found->second.path];
  forget_slots(session_of(path));
  path.fences.clear();
  if ((path.flags & kNewRkeyFlag) != 0 || !path.info_answered) path.chunks.clear();
  if (!path.info_answered) path.up = event_->now;
  path.open = true;
}

// Part of the path's setup is missing from a capture, and so are messages on some of its connections.
void WireSpec::incomplete(Path& path) {
  if (path.partial) return;
  path.partial = path.open = true;
  ++of_->counts.partial;
}

// True if the finding has the wrong message of one side because the message of the other side before it is
// not seen, and the capture has no later message from the other side. Then that message may be missing
// without a visible gap.
bool WireSpec::may_be_capture_end(const Recording& recording, const Finding& finding) const {
  const bool answers = finding.rule == Rule::hb_wire_ack || finding.rule == Rule::io_rsp_known ||
                       finding.rule == Rule::io_req_slot || finding.rule == Rule::wire_before_info;
  const auto found = recording.connections.find(finding.key);
  return answers && found != recording.connections.end() &&
         found->second.last_seq[finding.sent ? 1 : 0] < finding.seq;
}

void WireSpec::finish() {
  for (auto& [machine, recording] : recordings_) {
    judge_held(machine);
    recording.counts.excused += recording.found.remove_since(
        0, [this, &whole = recording](const Finding& finding) { return may_be_capture_end(whole, finding); });
    findings_.merge(std::exchange(recording.found, Findings{}));
    counts_.add(std::exchange(recording.counts, WireCounts{}));
  }
}

void WireSpec::on(unsigned machine, const Event& event) {
  Recording& recording = recordings_[machine];
  if (recording.machine) return judge(machine, recording, event);
  std::deque<Held>& next = orders_[machine].next;
  next.push_back(std::make_shared<HeldEvent>(HeldEvent{event, std::string(event.bytes)}));
  if (next.size() > kLookAhead) judge_next(machine);
}

void WireSpec::judge(unsigned machine, Recording& recording, const Event& event) {
  machine_ = machine;
  event_ = &event;
  of_ = &recording;
  if (event.kind == Kind::WireCm) return cm();
  if (event.kind == Kind::WireGap) return gap();
  const auto found = of_->connections.find(event.key);
  if (found == of_->connections.end()) {
    ++of_->counts.unplaced;
    return;
  }
  message(found->second, of_->paths[found->second.path]);
}

WireSpec::Session& WireSpec::session_of(const Path& path) {
  for (Session& session : of_->sessions)
    if (session.uuid == path.session) return session;
  of_->sessions.emplace_back();
  of_->sessions.back().uuid = path.session;
  return of_->sessions.back();
}

void WireSpec::forget_slots(Session& session) {
  session.open = true;
  for (PossibleStates<Slot>& slot : session.slots) slot.forget();
}

PossibleStates<WireSpec::Slot>* WireSpec::slot_of(Session& session, std::uint32_t id) {
  if (id > 0xffff) return nullptr;
  while (session.slots.size() <= id) {
    session.slots.emplace_back(PossibleStates<Slot>(Slot{}));
    if (session.open) session.slots.back().forget();
  }
  return &session.slots[id];
}

void WireSpec::report(Rule rule, const Key& other, std::string seen, std::string allowed) const {
  Event event = *event_;
  event.key = other;
  context().findings.add(rule, event, machine_, std::move(seen), std::move(allowed));
}

bool WireSpec::form(bool holds, const char* allowed) {
  return context().check(
      holds, Rule::wire_form,
      [&] {
        return std::string(name_of(event_->op)) + " of " + std::to_string(event_->length) +
               " bytes over connection " + std::to_string(event_->key.con);
      },
      [&] { return std::string(allowed); });
}

// A peer that hears nothing sends one HB_MSG after an interval, and ends the path when more than five are
// missed. In a machine's own trace, its timers show whether its process ran.
void WireSpec::silence(Path& path) {
  constexpr std::uint64_t kMostIntervals = 7;
  const Time since = std::exchange(path.heard, event_->now);
  if (of_->machine || capture_heartbeat_ == 0 || !path.info_answered || path.over || since == 0) return;
  const bool silent = event_->now > since && event_->now - since > kMostIntervals * capture_heartbeat_;
  context().check(
      !silent, Rule::hb_wire_silence,
      [&] {
        return std::to_string((event_->now - since) / 1'000'000) + " ms without a message of either side";
      },
      [&] {
        return "HB_MSG, or the end of the path within " +
               std::to_string(kMostIntervals * capture_heartbeat_ / 1'000'000) + " ms";
      });
}

void WireSpec::message(Connection& con, Path& path) {
  // The data of a READ, recorded again when the READ completes.
  if (of_->machine && !sent() && event_->op == WireOp::write && event_->rkey == 0) return;
  silence(path);
  context().check(!con.closed && !(sent() && con.closed_locally), Rule::cm_once,
                  "a message after the connection's end", "nothing more of it");
  con.last_seq[sent() ? 0 : 1] = event_->seq;
  // The response for cid 0 contains the negotiated values.
  if (!of_->machine && path.depth == 0) incomplete(path);
  const bool to_server = of_->client == sent();
  const bool info = event_->op == WireOp::send && event_->key.con == 0 && event_->bytes.size() >= 2 &&
                    u16_at(event_->bytes, 0) <= kInfoRsp;
  if (!info && !path.info_answered && !path.open)
    report(Rule::wire_before_info, Key{event_->key.path, 0, event_->key.epoch},
           "a message before the INFO exchange", "INFO_REQ, then INFO_RSP");
  // An empty write only produces a local completion and changes nothing at the peer.
  if (event_->op == WireOp::write && event_->length == 0) return;
  to_server ? from_client(con, path) : from_server(con, path);
}

void WireSpec::from_client(Connection& con, Path& path) {
  const std::string_view bytes = event_->bytes;
  switch (event_->op) {
    case WireOp::send: {
      const bool readable =
          form(bytes.size() >= 2 && event_->key.con == 0, "SEND of INFO_REQ or a fence over cid 0");
      if (!readable) return;
      if (u16_at(bytes, 0) == kInfoReq) return info_request(path);
      if (form(u16_at(bytes, 0) == kFenceReq && bytes.size() >= kFenceBytes,
               "SEND of INFO_REQ or a fence over cid 0"))
        fence(path, true);
      return;
    }
    case WireOp::write_imm: {
      const unsigned type = imm_type(event_->imm);
      if (type == kHbMsg || type == kHbAck) return heartbeat(con, path);
      if (form(type == kIoReq, "WRITE_WITH_IMM of a request or heartbeat")) request(con, path);
      return;
    }
    case WireOp::write:
    case WireOp::send_imm:
    case WireOp::send_inv:
      form(false, "a client sends WRITE_WITH_IMM, and over cid 0 SEND");
  }
}

void WireSpec::from_server(Connection& con, Path& path) {
  const std::string_view bytes = event_->bytes;
  const unsigned type = imm_type(event_->imm);
  switch (event_->op) {
    case WireOp::send: {
      const bool readable =
          form(bytes.size() >= 2 && event_->key.con == 0, "SEND of INFO_RSP or a fence's answer over cid 0");
      if (!readable) return;
      if (u16_at(bytes, 0) == kInfoRsp) return info_response(path);
      if (form(u16_at(bytes, 0) == kFenceRsp && bytes.size() >= kFenceBytes,
               "SEND of INFO_RSP or a fence's answer over cid 0"))
        fence(path, false);
      return;
    }
    case WireOp::write_imm:
      if (type == kHbMsg || type == kHbAck) return heartbeat(con, path);
      if (form(type == kIoRsp || type == kIoRspInv, "WRITE_WITH_IMM of a response or heartbeat"))
        response(con, path);
      return;
    case WireOp::send_imm:
      if (form(type == kIoRsp || type == kIoRspInv, "SEND_WITH_IMM of RKEY_RSP as a response"))
        response(con, path);
      return;
    case WireOp::write:
      of_->sees_data = true;
      return data(con, path);
    case WireOp::send_inv:
      return invalidation(con, path);
  }
}

void WireSpec::heartbeat(Connection& con, Path& path) {
  const RuleContext at = context();
  const bool anywhere = path.open || agreed(path, kProbeFlag, kProbeExtension);
  at.check((anywhere || event_->key.con == 0) && event_->length == 0 && imm_payload(event_->imm) == 0,
           Rule::hb_wire, "a heartbeat with a payload, or over an IO connection without the probe",
           "an empty WRITE_WITH_IMM over cid 0, or over any connection where the probe is agreed");
  const unsigned own = sent() ? 0 : 1;
  if (imm_type(event_->imm) == kHbAck) {
    ++con.acknowledged[own];
    at.check(con.acknowledged[own] <= con.heartbeats[1 - own] || path.open, Rule::hb_wire_ack,
             "an HB_ACK without an HB_MSG", "one HB_ACK for each HB_MSG of the other side");
    return;
  }
  ++con.heartbeats[own];
  // A recording machine does not know the peer's heartbeat interval, because it is not sent on the wire.
  Time interval = of_->machine ? of_->settings.heartbeat_interval : capture_heartbeat_;
  if (of_->machine && !sent()) interval = 0;
  if (interval == 0 || !path.info_answered) return;
  const std::uint64_t slack = of_->machine ? 0 : 1;  // allows for network delay
  const std::uint64_t most = (event_->now - path.up) / interval + slack;
  at.check(
      con.heartbeats[own] <= most, Rule::hb_wire_period,
      [&] { return "HB_MSG number " + std::to_string(con.heartbeats[own]) + " of this path"; },
      [&] { return "at most " + std::to_string(most) + " until now"; });
}

void WireSpec::fence(Path& path, bool question) {
  const RuleContext at = context();
  at.check(path.open || agreed(path, kFenceFlag, kFenceExtension), Rule::fence_wire,
           "a fence between peers that did not agree on it", "none");
  const std::pair fence(u32_at(event_->bytes, 4), uuid_at(event_->bytes, 8));
  if (question) {
    const bool known = std::any_of(of_->paths.begin(), of_->paths.end(), [&](const Path& one) {
      return one.open || (one.session == path.session && one.uuid == fence.second);
    });
    at.check(known || !of_->client || of_->earlier || of_->counts.unplaced != 0, Rule::fence_wire,
             "a fence for a path that its client does not have",
             "the sess_uuid of a path of the same session");
    path.fences.push_back(fence.first);
    return;
  }
  const auto found = std::find(path.fences.begin(), path.fences.end(), fence.first);
  at.check(found != path.fences.end() || path.open, Rule::fence_wire, "an answer to no fence that is open",
           "the serial of an open question");
  if (found != path.fences.end()) path.fences.erase(found);
}

}  // namespace rtrs::spec
