#include "conformance/spec/told.hpp"

#include <algorithm>
#include <utility>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/immediate.hpp"

namespace rtrs::spec {

namespace {

// Kind of the note that is directly before such an input; no value: none has to be.
std::optional<Kind> note_before(Kind input) noexcept {
  switch (input) {
    case Kind::RequestArrived:
    case Kind::ImmReceived:
    case Kind::KeyedResponseReceived:
    case Kind::KeyInvalidated:
    case Kind::InfoAccepted:
    case Kind::FenceAnswered:
    case Kind::FenceRequested:
      return Kind::WireReceived;
    case Kind::Connected:
    case Kind::ConnectRequested:
    case Kind::ConnectionClosed:
      return Kind::WireCm;
    default:
      return std::nullopt;
  }
}

}  // namespace

// The RTRS header is at the end of the recorded bytes; the user data of a WRITE precedes it. If the length of
// the offered buffer contradicts the immediate, the immediate counts.
bool ToldSpec::request_agrees(const Event& told, const Event& note) const {
  const std::string_view head = note.bytes;
  const std::size_t size = !told.reads           ? kWriteHeader
                           : told.has_descriptor ? kReadHeader + kDescriptorBytes
                                                 : kReadHeader;
  if (head.empty()) return true;  // the driver refused the request without reading it
  if (head.size() < size || note.length < size) return false;
  const std::string_view header = head.substr(head.size() - size);
  const auto tag = static_cast<std::uint8_t>(u16_at(header, 0) >> 8);
  if (told.generation != 0 && told.generation != tag) return false;
  const bool asks = told.has_descriptor && (u16_at(header, 4) & 1) != 0;
  if ((u16_at(header, 0) & 0xff) != (told.reads ? kRead : kWrite) || told.usr_len != u16_at(header, 2) ||
      told.need_invalidate != asks)
    return false;
  const auto depth = depths_.find(machine_);
  return depth == depths_.end() || (told.chunk == request_buf_id(depth->second, note.imm) &&
                                    told.data_len + told.usr_len == request_off(depth->second, note.imm));
}

bool ToldSpec::fence_agrees(const Event& told, const Event& note) {
  const std::string_view bytes = note.bytes;
  if (note.kind != Kind::WireReceived || bytes.size() < kFenceBytes) return true;
  const std::uint16_t second = u16_at(bytes, 2);
  return told.serial == u32_at(bytes, 4) &&
         (told.kind == Kind::FenceAnswered ? told.error == second
                                           : told.recon_cnt == second && told.uuid == uuid_at(bytes, 8));
}

bool ToldSpec::agrees(const Event& told, const Event& note) const {
  const std::string_view bytes = note.bytes;
  switch (told.kind) {
    case Kind::RequestArrived:
      return note.kind != Kind::WireReceived || request_agrees(told, note);
    case Kind::FenceRequested:
    case Kind::FenceAnswered:
      return fence_agrees(told, note);
    case Kind::ImmReceived:
      return note.kind != Kind::WireReceived || !note.has_imm || told.imm == note.imm;
    case Kind::KeyedResponseReceived:
      return note.kind != Kind::WireReceived || bytes.size() < kRkeyRspBytes ||
             (told.imm == note.imm && told.chunk == u16_at(bytes, 2) && told.rkey == u32_at(bytes, 4));
    case Kind::Connected:
      return note.kind != Kind::WireCm || bytes.size() < kConRspBytes ||
             (told.queue_depth == u16_at(bytes, 6) && told.max_io_size == u32_at(bytes, 8) &&
              told.max_hdr_size == u32_at(bytes, 12) && told.flags == u32_at(bytes, 16));
    case Kind::ConnectRequested:
      return note.kind != Kind::WireCm || bytes.size() < kConReqBytes ||
             (told.key.con == u16_at(bytes, 6) && told.cid_num == u16_at(bytes, 8) &&
              told.recon_cnt == u16_at(bytes, 10) && told.uuid == uuid_at(bytes, 12) &&
              told.first_conn == ((bytes[44] & 1) != 0) &&
              (told.extensions & ~static_cast<std::uint8_t>(bytes[45])) == 0);
    default:
      return true;
  }
}

// A request number consists of session, chunk and serial number.
void ToldSpec::on(const DeviceEvent& event) {
  now_ = event.now;
  if (event.kind == DeviceKind::Respond) answers_[event.request] = {event.seq, event.now};
}

void ToldSpec::begins_or_ends(unsigned machine, const Event& event) {
  if (const auto known = sessions_.find(machine); known != sessions_.end()) {
    std::erase_if(answers_, [&](const auto& one) { return one.first >> 32 == known->second; });
    sessions_.erase(known);
  }
  if (event.kind != Kind::EndSession) {
    noted_.erase(machine);
    last_noted_.reset();
  }
  if (event.kind != Kind::BeginServerSession) return;
  sessions_[machine] = event.session;
  begin(machine, event.settings.depth);
}

// A driver may take several answers of the devices before it passes them to the session.
void ToldSpec::finish() {
  constexpr Time kAtOnce = 1'000'000'000;
  for (const auto& [number, answer] : answers_) {
    const std::uint64_t request = number;
    const auto session = std::find_if(sessions_.begin(), sessions_.end(),
                                      [&](const auto& one) { return one.second == request >> 32; });
    if (session == sessions_.end() || now_ - answer.now < kAtOnce) continue;
    findings_.add(Rule::response_due, answer.seq, answer.now, session->first,
                  "the devices answered the request in chunk " + std::to_string(request >> 16 & 0xffff) +
                      ", and the session was not told",
                  "Responded");
  }
}

void ToldSpec::on(unsigned machine, const Event& event) {
  now_ = event.now;
  const EventClass its = class_of(event.kind);
  if (its == EventClass::begin || event.kind == Kind::EndSession) begins_or_ends(machine, event);
  if (event.kind == Kind::Responded) {
    const auto known = sessions_.find(machine);
    if (known != sessions_.end())
      answers_.erase(known->second << 32 | std::uint64_t{event.chunk} << 16 | event.serial16);
  }
  if (its == EventClass::wire && last_noted_ != machine) {
    noted_.insert(machine);
    last_noted_ = machine;
  }
  const bool message = event.kind == Kind::WireReceived && event.op != WireOp::write;
  if (message || (event.kind == Kind::WireCm && !event.sent)) {
    just_received_ = true;
    machine_ = machine;
    note_ = event;
    bytes_ = event.bytes;
    return;
  }
  const bool received = std::exchange(just_received_, false) && machine == machine_ && event.key == note_.key;
  if (its != EventClass::input) return;
  const std::optional<Kind> before = note_before(event.kind);
  if (before && noted_.contains(machine) && !(received && note_.kind == *before))
    findings_.add(Rule::told_as_received, event, machine,
                  std::string(name_of(event.kind)) + " without the message that it tells of",
                  "its message directly before it");
  if (!received) return;
  note_.bytes = bytes_;
  RuleContext{findings_, event, machine}.check(
      agrees(event, note_), Rule::told_as_received,
      [&] { return std::string(name_of(event.kind)) + " has other values than the message before it"; },
      [] { return std::string("what the message says"); });
}

}  // namespace rtrs::spec
