#include "conformance/spec/test_handed_story.hpp"

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/test_device_story.hpp"

namespace rtrs::spec {

namespace {

constexpr unsigned kSession = 4, kDevices = 1028, kClient = 0, kClientDevices = 1;
constexpr std::uint64_t kRequest = std::uint64_t{3} << 32 | 5 << 16 | 7;

std::string_view keep(std::string text) {
  static std::list<std::string> kept;
  return kept.emplace_back(std::move(text));
}
void keyed(Event& event) {
  event.key = Key{3 * 128, 1, 9};
}

}  // namespace

// The checker judges only what is handed over: neither machine has its setup in this story.
HandedStory handed_server_story() {
  HandedStory story;
  const std::string_view io = keep(io_message({Opcode::write, 8, 512, 0, kId}));
  const std::string_view message = keep(std::string(io) + little_endian(kWrite, 2) + little_endian(32, 2));
  story.add(kSession, Kind::BeginServerSession, [](Event& e) { e.session = 3; });
  story.add(kDevices, DeviceKind::BeginServerDevices, [](DeviceEvent& e) { e.session = 3; });
  story.add(kSession, Kind::WireReceived, [&](Event& e) {
    keyed(e), e.op = WireOp::write_imm, e.has_imm = true, e.length = 512 + 36, e.bytes = message;
  });
  story.add(kSession, Kind::RequestArrived,
            [](Event& e) { keyed(e), e.chunk = 5, e.data_len = 512, e.usr_len = 32; });
  story.add(kSession, Kind::Deliver, [](Event& e) { keyed(e), e.chunk = 5, e.serial16 = 7; });
  story.add(kDevices, DeviceKind::DeviceRequest,
            [&](DeviceEvent& e) { e.request = kRequest, e.data_len = 512, e.header = io; });
  story.add(kDevices, DeviceKind::Respond,
            [](DeviceEvent& e) { e.request = kRequest, e.peer_errno = kNotConnected; });
  story.add(kSession, Kind::Responded,
            [](Event& e) { e.chunk = 5, e.serial16 = 7, e.error = kNotConnected; });
  return story;
}

const std::vector<HandedSpoiled>& handed_server_cases() {
  static const std::vector<HandedSpoiled> cases = {
      {Rule::device_handed, "another sector",
       [](HandedStory& s) {
         s.at(DeviceKind::DeviceRequest).header = keep(io_message({Opcode::write, 16, 512, 0, kId}));
       }},
      {Rule::device_handed, "another length",
       [](HandedStory& s) { s.at(DeviceKind::DeviceRequest).data_len = 1024; }},
      {Rule::device_handed, "another direction",
       [](HandedStory& s) { s.at(DeviceKind::DeviceRequest).reads = true; }},
      {Rule::device_handed, "a request that nobody handed over",
       [](HandedStory& s) { s.repeat(DeviceKind::DeviceRequest); }},
      {Rule::device_handed, "another errno", [](HandedStory& s) { s.at(Kind::Responded).error = kIoError; }},
      {Rule::device_handed, "an answer that the devices did not give",
       [](HandedStory& s) { s.at(Kind::Responded).serial16 = 8; }},
  };
  return cases;
}

HandedStory handed_client_story() {
  HandedStory story;
  const std::string_view open = keep(open_message("disk"));
  story.add(kClientDevices, DeviceKind::BeginClientDevices, [](DeviceEvent&) {});
  story.add(kClient, Kind::BeginClient, [](Event&) {});
  story.add(kClientDevices, DeviceKind::SendMessage, [&](DeviceEvent& e) {
    e.token = 1, e.message = MessageKind::open, e.reads = true, e.header = open, e.response_length = 56;
  });
  story.add(kClient, Kind::Submitted, [](Event& e) {
    e.permit = 2, e.service = e.reads = true, e.data_len = 56, e.usr_len = kOpenBytes;
  });
  story.add(kClient, Kind::PostRequest, [](Event& e) { e.permit = 2, e.key = Key{0, 0, 1}; });
  story.add(kClient, Kind::WireSent, [&](Event& e) {
    e.key = Key{0, 0, 1}, e.op = WireOp::write_imm, e.has_imm = true, e.bytes = open;
  });
  story.add(kClient, Kind::Complete, [](Event& e) { e.permit = 2, e.result = Result::ok; });
  story.add(kClientDevices, DeviceKind::MessageDone, [](DeviceEvent& e) { e.token = 1, e.delivered = true; });
  const IoFacts facts{.changes_before = 4};
  story.add(kClientDevices, DeviceKind::IoBegun, [&](DeviceEvent& e) { e.device = 1, e.io = facts; });
  story.add(kClientDevices, DeviceKind::IoStarted, [&](DeviceEvent& e) { e.device_id = kId, e.io = facts; });
  story.add(kClient, Kind::Submitted,
            [](Event& e) { e.permit = 3, e.reads = true, e.data_len = 512, e.usr_len = 32; });
  story.add(kClient, Kind::PostRequest, [](Event& e) { e.permit = 3, e.key = Key{0, 1, 1}; });
  story.add(kClient, Kind::WireSent, [&](Event& e) {
    e.key = Key{0, 1, 1}, e.op = WireOp::write_imm, e.has_imm = true, e.bytes = keep(io_message({}));
  });
  story.add(kClient, Kind::Complete,
            [](Event& e) { e.permit = 3, e.result = Result::peer_error, e.error = kIoError; });
  story.add(kClientDevices, DeviceKind::IoDone,
            [&](DeviceEvent& e) { e.device = 1, e.io = facts, e.delivered = true, e.peer_errno = kIoError; });
  story.add(kClientDevices, DeviceKind::IoJudged, [](DeviceEvent& e) { e.disposition = Disposition::fail; });
  return story;
}

const std::vector<HandedSpoiled>& handed_client_cases() {
  static const std::vector<HandedSpoiled> cases = {
      {Rule::io_handed, "a message of another length",
       [](HandedStory& s) { s.at(Kind::Submitted).data_len = 36; }},
      {Rule::io_handed, "another message",
       [](HandedStory& s) { s.at(Kind::WireSent).bytes = keep(open_message("other")); }},
      {Rule::io_handed, "a message that ended otherwise",
       [](HandedStory& s) { s.at(DeviceKind::MessageDone).peer_errno = kIoError; }},
      {Rule::io_handed, "a message that ends twice",
       [](HandedStory& s) { s.repeat(DeviceKind::MessageDone); }},
      {Rule::io_handed, "an IO in another direction",
       [](HandedStory& s) { s.at(Kind::Submitted, 1).reads = false; }},
      {Rule::io_handed, "an IO of another device",
       [](HandedStory& s) {
         s.at(Kind::WireSent, 1).bytes = keep(io_message({Opcode::read, 8, 512, 0, kSecondId}));
       }},
      {Rule::io_handed, "an IO that ended otherwise",
       [](HandedStory& s) { s.at(DeviceKind::IoDone).peer_errno = kNoSpace; }},
      {Rule::io_handed, "an IO with another ticket",
       [](HandedStory& s) { s.at(DeviceKind::IoDone).io.changes_before = 5; }},
      {Rule::io_handed, "an IO that ends twice", [](HandedStory& s) { s.repeat(DeviceKind::IoDone); }},
  };
  return cases;
}

}  // namespace rtrs::spec
