#include "conformance/spec/handed.hpp"

#include <algorithm>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/device_numbers.hpp"
#include "conformance/spec/immediate.hpp"

namespace rtrs::spec {

namespace {

// User header in the bytes of a noted request, in front of the RTRS header.
std::optional<std::string> user_header(const Event& note, const Event& told) {
  const std::string_view head = note.bytes;
  const std::size_t size = !told.reads           ? kWriteHeader
                           : told.has_descriptor ? kReadHeader + kDescriptorBytes
                                                 : kReadHeader;
  if (head.size() < size + told.usr_len) return std::nullopt;
  return std::string(head.substr(head.size() - size - told.usr_len, told.usr_len));
}

}  // namespace

void HandedSpec::on(unsigned machine, const Event& event) {
  machine_ = machine;
  if (class_of(event.kind) != EventClass::begin) {
    if (client_ == machine) return client_session(event);
    return server_session(machine, event);
  }
  if (event.kind == Kind::BeginClient) {
    ambiguous_ = ambiguous_ || (client_ && *client_ != machine);
    client_ = machine;
    begun_.clear(), permits_.clear(), ended_.clear(), posted_.clear();
    return;
  }
  if (event.kind == Kind::BeginServerSession) {
    servers_[machine] = Server{event.session, {}};
    return;
  }
  if (event.kind == Kind::End) {
    servers_.erase(machine);
    if (const auto of = device_sessions_.find(machine); of != device_sessions_.end()) {
      devices_.erase(of->second);
      device_sessions_.erase(of);
    }
    if (client_ == machine) client_.reset();
  }
}

void HandedSpec::server_session(unsigned machine, const Event& event) {
  const bool received = std::exchange(just_received_, false);
  if (event.kind != Kind::WireReceived && event.kind != Kind::RequestArrived && event.kind != Kind::Deliver &&
      event.kind != Kind::Responded)
    return;
  const auto found = servers_.find(machine);
  if (found == servers_.end()) return;
  Server& server = found->second;
  switch (event.kind) {
    case Kind::WireReceived:
      just_received_ = true;
      note_ = event;
      bytes_ = event.bytes;
      return;
    case Kind::RequestArrived: {
      note_.bytes = bytes_;
      const bool its = received && note_.key == event.key;
      server.arrived[{event.chunk, event.key}] = {event.reads, event.data_len, event.usr_len,
                                                  its ? user_header(note_, event) : std::nullopt};
      return;
    }
    case Kind::Deliver:
      return deliver(server, event);
    case Kind::Responded: {
      const auto of = devices_.find(server.session);
      if (of == devices_.end()) return;
      const std::uint64_t request = server.session << 32 | std::uint64_t{event.chunk} << 16 | event.serial16;
      const auto answer = of->second.answered.find(request);
      const bool known = answer != of->second.answered.end();
      RuleContext{findings_, event, machine}.check(
          known && answer->second == event.error, Rule::device_handed,
          [&] { return "the session is told of an answer with errno " + std::to_string(event.error); },
          [&] {
            return known ? "errno " + std::to_string(answer->second) + ", as the devices answered"
                         : std::string("one answer for each of the devices");
          });
      if (known) of->second.answered.erase(answer);
      return;
    }
    default:
      return;
  }
}

void HandedSpec::deliver(Server& server, const Event& event) {
  const auto of = devices_.find(server.session);
  const auto arrived = server.arrived.find({event.chunk, event.key});
  if (of == devices_.end() || arrived == server.arrived.end()) return;
  const std::uint64_t request = server.session << 32 | std::uint64_t{event.chunk} << 16 | event.serial16;
  of->second.delivered[request] = std::move(arrived->second);
  server.arrived.erase(arrived);
}

void HandedSpec::on(unsigned machine, const DeviceEvent& event) {
  machine_ = machine;
  just_received_ = false;
  switch (event.kind) {
    case DeviceKind::BeginServerDevices:
      devices_[event.session] = Devices{};
      device_sessions_[machine] = event.session;
      return;
    case DeviceKind::DeviceRequest:
      return device_request(machine, event);
    case DeviceKind::Respond:
      if (const auto of = devices_.find(event.request >> 32); of != devices_.end())
        of->second.answered[event.request] = event.peer_errno;
      return;
    case DeviceKind::BeginClientDevices:
      has_devices_ = true;
      return;
    default:
      if (client_ && has_devices_ && !ambiguous_) client_devices(event);
  }
}

void HandedSpec::device_request(unsigned machine, const DeviceEvent& event) {
  const auto its = device_sessions_.find(machine);
  if (its == device_sessions_.end()) return;
  const bool session_seen = std::any_of(servers_.begin(), servers_.end(),
                                        [&](const auto& one) { return one.second.session == its->second; });
  if (!session_seen) return;
  Devices& devices = devices_[its->second];
  const auto found = devices.delivered.find(event.request);
  if (found == devices.delivered.end()) {
    report(Rule::device_handed, event, "the devices are given a request that the session did not hand over",
           "each request that the session hands over, once");
    return;
  }
  const Arrived arrived = std::move(found->second);
  devices.delivered.erase(found);
  const bool sizes = event.reads == arrived.reads && event.data_len == arrived.data_len &&
                     event.header.size() <= arrived.usr_len;
  const bool bytes = !arrived.user || arrived.user->compare(0, event.header.size(), event.header) == 0;
  if (!sizes || !bytes)
    report(Rule::device_handed, event,
           sizes ? "the devices are given another header than the message has"
                 : "the devices are given another length or direction than the session was told of",
           "header, length and direction of the message");
}

void HandedSpec::client_session(const Event& event) {
  if (!has_devices_ || ambiguous_) return;
  switch (event.kind) {
    case Kind::Submitted:
      return submitted(event);
    case Kind::PostRequest:
      posted_[event.key].push_back(event.permit);
      return;
    case Kind::WireSent:
      if (event.op == WireOp::write_imm && imm_type(event.imm) == kIoReq) posted(event);
      return;
    case Kind::ConnectionClosed:
      posted_.erase(event.key);
      return;
    case Kind::Complete: {
      const auto found = permits_.find(event.permit);
      if (found == permits_.end()) return;
      found->second.delivered = event.result == Result::ok || event.result == Result::peer_error;
      found->second.error = event.error;
      ended_.push_back(std::move(found->second));
      permits_.erase(found);
      return;
    }
    default:
      return;
  }
}

void HandedSpec::submitted(const Event& event) {
  const auto found =
      std::find_if(begun_.begin(), begun_.end(), [&](const Begun& one) { return one.io != event.service; });
  if (found == begun_.end()) return;  // the program gave the session a request of its own
  const Begun& begun = *found;
  const bool same = begun.io ? begun.facts.changes != event.reads
                             : begun.reads == event.reads && begun.data_len == event.data_len &&
                                   begun.header.size() == event.usr_len;
  RuleContext{findings_, event, machine_}.check(
      same || (begun.io && begun.facts.flushes), Rule::io_handed,
      "a request is submitted with another direction or length than its device gave", "those of the device");
  Begun& kept = permits_[event.permit] = begun;
  kept.reads = event.reads;
  kept.data_len = event.data_len;
  begun_.erase(found);
}

// Compares the user header of a request with what the devices said.
void HandedSpec::posted(const Event& note) {
  std::deque<std::uint16_t>& posted = posted_[note.key];
  if (posted.empty()) return;
  const auto found = permits_.find(posted.front());
  posted.pop_front();
  if (found == permits_.end()) return;
  const Begun& begun = found->second;
  // The data of a write precedes the headers, and is recorded only with detail `payload`.
  const std::uint64_t data = begun.reads ? 0 : begun.data_len;
  std::string_view head = note.bytes;
  if (data < note.length && note.length - data < head.size())
    head.remove_prefix(head.size() - static_cast<std::size_t>(note.length - data));
  const bool same =
      begun.io ? head.size() >= kIoMinBytes && u16_at(head, 0) == kIo && u32_at(head, 4) == begun.device_id
               : head.substr(0, begun.header.size()) == begun.header;
  RuleContext{findings_, note, machine_}.check(same, Rule::io_handed,
                                               "a message has another device or header than its device gave",
                                               "those of the device");
}

void HandedSpec::client_devices(const DeviceEvent& event) {
  switch (event.kind) {
    case DeviceKind::SendMessage: {
      Begun begun;
      begun.token = event.token;
      begun.reads = event.reads;
      begun.data_len = event.response_length;
      begun.header = event.header;
      begun_.push_back(std::move(begun));
      return;
    }
    case DeviceKind::IoBegun:
      io_begun_ = event;
      return;
    case DeviceKind::IoStarted: {
      if (!io_begun_) return;
      Begun begun;
      begun.io = true;
      begun.device = io_begun_->device;
      begun.device_id = event.device_id;
      begun.facts = event.io;
      io_begun_.reset();
      begun_.push_back(std::move(begun));
      return;
    }
    case DeviceKind::MessageDone:
      return message_done(event);
    case DeviceKind::IoDone:
      return io_done(event);
    default:
      return;
  }
}

void HandedSpec::message_done(const DeviceEvent& event) {
  const auto its = [&](const Begun& one) { return !one.io && one.token == event.token; };
  const auto found = std::find_if(ended_.begin(), ended_.end(), its);
  if (found == ended_.end()) {
    // The session did not accept the message.
    const bool refused = !event.delivered && std::erase_if(begun_, its) != 0;
    if (!refused && event.token != 0)
      report(Rule::io_handed, event, "a device is told of the end of a message that did not end",
             "each message once, when its request completes");
    return;
  }
  if (found->delivered != event.delivered || (event.delivered && found->error != event.peer_errno))
    report(Rule::io_handed, event,
           "a device is told that its message ended with errno " + std::to_string(event.peer_errno),
           "the result of its request");
  ended_.erase(found);
}

void HandedSpec::io_done(const DeviceEvent& event) {
  const auto ticket = [&](const Begun& one) {
    return one.io && one.device == event.device && one.facts == event.io;
  };
  const auto exact = std::find_if(ended_.begin(), ended_.end(), [&](const Begun& one) {
    return ticket(one) && one.delivered == event.delivered && one.error == event.peer_errno;
  });
  if (exact != ended_.end()) {
    ended_.erase(exact);
    return;
  }
  const auto refused = std::find_if(begun_.begin(), begun_.end(), ticket);
  if (!event.delivered && refused != begun_.end()) {
    begun_.erase(refused);
    return;
  }
  const auto result = std::find_if(ended_.begin(), ended_.end(), ticket);
  report(Rule::io_handed, event,
         result == ended_.end() ? std::string("an IO ends with another device or ticket than it began with")
                                : "an IO ends with errno " + std::to_string(event.peer_errno) +
                                      ", and its request with " + std::to_string(result->error),
         "device and ticket of an IO that began, and the result of its request");
  const auto any = result != ended_.end()
                       ? result
                       : std::find_if(ended_.begin(), ended_.end(), [](const Begun& one) { return one.io; });
  if (any != ended_.end()) ended_.erase(any);
}

}  // namespace rtrs::spec
