#include "conformance/spec/sent.hpp"

#include <algorithm>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/immediate.hpp"

namespace rtrs::spec {

namespace {

bool is_sent(Kind action) noexcept {
  switch (action) {
    case Kind::PostRequest:
    case Kind::PostResponse:
    case Kind::PostImm:
    case Kind::ProbeDelivery:
    case Kind::SendInfoReq:
    case Kind::SendInfoRsp:
    case Kind::SendFenceReq:
    case Kind::SendFenceRsp:
    case Kind::Connect:
    case Kind::Accept:
    case Kind::Disconnect:
      return true;
    default:
      return false;
  }
}

CmKind cm_of(Kind action) noexcept {
  return action == Kind::Connect ? CmKind::req : action == Kind::Accept ? CmKind::rep : CmKind::dreq;
}

bool is_cm(Kind action) noexcept {
  return action == Kind::Connect || action == Kind::Accept || action == Kind::Disconnect;
}

// Size of the RTRS header at the end of a request.
std::size_t header_bytes(bool reads, bool offers) noexcept {
  return !reads ? kWriteHeader : offers ? kReadHeader + kDescriptorBytes : kReadHeader;
}

}  // namespace

void SentSpec::on(unsigned machine, const Event& event) {
  const EventClass its = class_of(event.kind);
  if (its == EventClass::action && event.kind != Kind::Reject && !is_sent(event.kind)) return;
  if (event.kind == Kind::End) {
    machines_.erase(machine);
    return;
  }
  if (its == EventClass::begin) {
    machines_.erase(machine);
    machines_[machine].client = event.kind == Kind::BeginClient;
    return;
  }
  const auto found = machines_.find(machine);
  if (found == machines_.end()) return;
  machine_ = machine;
  Machine& of = found->second;
  switch (its) {
    case EventClass::input:
      nothing_left(machine, of, &event);
      return input(of, event);
    case EventClass::action:
      return action(of, event);
    default:
      of.noted = true;
      if (event.kind == Kind::WireReceived) {
        received_ = event;
        const std::size_t size = kReadHeader + kDescriptorBytes;
        const std::string_view head = event.bytes;
        offered_ = head.size() < size ? 0 : u32_at(head, head.size() - 4);
      }
      const bool mine = event.kind == Kind::WireSent || (event.kind == Kind::WireCm && event.sent);
      if (mine && event.kind == Kind::WireCm && event.cm == CmKind::rej) return rejected(of, event);
      if (mine && event.key.epoch != 0) sent(of, event);
  }
}

void SentSpec::finish(bool whole) {
  if (!whole) return;
  for (auto& [number, machine] : machines_) nothing_left(number, machine, nullptr);
}

void SentSpec::input(Machine& of, const Event& event) {
  if (event.kind == Kind::Submitted) {
    of.permits[event.permit] = {event.reads, event.data_len, event.usr_len, 0};
  } else if (event.kind == Kind::RequestArrived) {
    const bool told = event.has_descriptor && received_.key == event.key && received_.now == event.now;
    of.arrived[{event.chunk, event.key}] = {event.reads, event.data_len, event.usr_len, told ? offered_ : 0};
  } else if (event.kind == Kind::ConnectionClosed) {
    std::erase_if(of.arrived, [&](const auto& one) { return one.first.second == event.key; });
  }
}

void SentSpec::action(Machine& of, const Event& event) {
  if (event.kind == Kind::Reject) {
    of.refused.push_back(event.error);
    return;
  }
  // A step has fewer actions. A file that claims otherwise would make the search below slow.
  constexpr std::size_t kMostOfAStep = 2048;
  if (of.decided.size() == kMostOfAStep) return;
  of.decided.push_back(event);
  of.decided.back().bytes = {};
}

bool SentSpec::matches_request(const Machine& of, const Event& decided, const Event& note) const {
  const auto found = of.permits.find(decided.permit);
  if (found == of.permits.end()) return true;
  const Request& request = found->second;
  const bool offers = request.reads && request.data_len != 0;
  const std::size_t size = header_bytes(request.reads, offers);
  const std::string_view head = note.bytes;
  if (head.size() < size) return false;
  const std::string_view header = head.substr(head.size() - size);
  const std::uint16_t type = u16_at(header, 0);
  const std::uint32_t data = request.reads ? 0 : request.data_len;
  return (type & 0xff) == (request.reads ? kRead : kWrite) &&
         (decided.generation == 0 || type >> 8 == decided.generation) &&
         u16_at(header, 2) == request.usr_len && note.length == data + request.usr_len + size &&
         (!offers || u32_at(header, kReadHeader + 12) == request.data_len);
}

bool SentSpec::matches_cm(const Event& decided, const Event& note) const {
  const std::string_view bytes = note.bytes;
  if (note.kind != Kind::WireCm || note.cm != cm_of(decided.kind)) return false;
  if (decided.kind == Kind::Connect)
    return bytes.size() >= kConReqBytes && u16_at(bytes, 6) == decided.key.con &&
           u16_at(bytes, 8) == decided.cid_num && u16_at(bytes, 10) == decided.recon_cnt &&
           ((bytes[44] & 1) != 0) == decided.first_conn &&
           static_cast<std::uint8_t>(bytes[45]) == decided.extensions;
  if (decided.kind == Kind::Accept)
    return bytes.size() >= kConRspBytes && u16_at(bytes, 4) == 0 && u32_at(bytes, 16) == decided.flags;
  return true;
}

bool SentSpec::matches_response(const Machine& of, Event& decided, const Event& note, bool& last) const {
  const auto found = of.arrived.find({decided.chunk, decided.key});
  const bool known = found != of.arrived.end();
  const std::uint32_t most = known ? found->second.data_len : note.length;
  const std::uint32_t length =
      known && found->second.buffer != 0 ? std::min(most, found->second.buffer) : most;
  last = false;
  if (decided.write_data && !decided.data_with_answer) {
    decided.write_data = false;
    return note.op == WireOp::write && note.length == length;
  }
  if (decided.send_invalidate) {
    decided.send_invalidate = false;
    return note.op == WireOp::send_inv;
  }
  last = true;
  const bool joined = decided.write_data && decided.data_with_answer;
  return note.op == (decided.fresh_key ? WireOp::send_imm : WireOp::write_imm) && note.imm == decided.imm &&
         (decided.fresh_key || note.length == (joined ? length : 0));
}

bool SentSpec::matches(const Machine& of, const Event& decided, const Event& note) const {
  const std::string_view bytes = note.bytes;
  if (is_cm(decided.kind)) return matches_cm(decided, note);
  if (note.kind != Kind::WireSent) return false;
  switch (decided.kind) {
    case Kind::PostRequest:
      return note.op == WireOp::write_imm && note.imm == decided.imm && matches_request(of, decided, note);
    case Kind::PostImm:
      return note.op == WireOp::write_imm && note.imm == decided.imm && note.length == 0;
    case Kind::ProbeDelivery:
      return note.op == WireOp::write && note.length == 0;
    case Kind::SendInfoReq:
    case Kind::SendInfoRsp:
      return note.op == WireOp::send && bytes.size() >= 2 &&
             u16_at(bytes, 0) == (decided.kind == Kind::SendInfoReq ? kInfoReq : kInfoRsp);
    case Kind::SendFenceReq:
      return note.op == WireOp::send && bytes.size() == kFenceBytes && u16_at(bytes, 0) == kFenceReq &&
             u16_at(bytes, 2) == decided.recon_cnt && u32_at(bytes, 4) == decided.serial;
    case Kind::SendFenceRsp:
      return note.op == WireOp::send && bytes.size() == kFenceBytes && u16_at(bytes, 0) == kFenceRsp &&
             u16_at(bytes, 2) == decided.error && u32_at(bytes, 4) == decided.serial &&
             uuid_at(bytes, 8) == decided.uuid;
    default:
      return true;
  }
}

void SentSpec::sent(Machine& of, const Event& note) {
  const auto decided = std::find_if(of.decided.begin(), of.decided.end(),
                                    [&](const Event& one) { return one.key == note.key; });
  const RuleContext at{findings_, note, machine_};
  const char* const name = note.kind == Kind::WireCm ? "a connection message" : "a message";
  const bool any = decided != of.decided.end();
  at.check(
      any, Rule::sent_as_decided, [&] { return std::string(name) + " goes out that no action asks for"; },
      [] { return std::string("the messages of the actions, in their order"); });
  if (!any) return;
  const Kind kind = decided->kind;
  bool last = true;
  const bool same =
      kind == Kind::PostResponse ? matches_response(of, *decided, note, last) : matches(of, *decided, note);
  at.check(
      same, Rule::sent_as_decided,
      [&] { return std::string(name) + " goes out with other values than " + std::string(name_of(kind)); },
      [&] { return "what " + std::string(name_of(kind)) + " says"; });
  if (last) of.decided.erase(decided);
}

void SentSpec::rejected(Machine& of, const Event& note) {
  if (of.refused.empty() || note.bytes.size() < kConRspBytes) return;  // the driver refused it by itself
  const std::uint16_t error = of.refused.front();
  of.refused.pop_front();
  const auto said = static_cast<std::uint16_t>(-u16_at(note.bytes, 4));
  RuleContext{findings_, note, machine_}.check(
      said == error, Rule::sent_as_decided, [&] { return "a rejection with errno " + std::to_string(said); },
      [&] { return "errno " + std::to_string(error) + ", as Reject says"; });
}

// The driver posts the messages of a step before the next input. If it lacks memory or a key for a message,
// it tells the machine so and ends the connection.
void SentSpec::nothing_left(unsigned machine, Machine& of, const Event* next) {
  of.refused.clear();
  for (auto one = of.decided.begin(); one != of.decided.end(); ++one) {
    const bool given_up = next != nullptr && next->kind == Kind::ConnectionLost && next->key == one->key;
    if (!of.noted || given_up || (one->kind == Kind::PostResponse && one->fresh_key)) continue;
    // One finding for each connection: its first message.
    if (std::any_of(of.decided.begin(), one, [&](const Event& other) { return other.key == one->key; }))
      continue;
    findings_.add(Rule::sent_as_decided, *one, machine,
                  "the message of " + std::string(name_of(one->kind)) + " does not go out",
                  "it, before the next input");
  }
  of.decided.clear();
}

}  // namespace rtrs::spec
