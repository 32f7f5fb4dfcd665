// The event sequences of test_server_story.cpp and test_wire_story.cpp, adapted to the extensions keys_stay
// and data_with_answer: the response of a READ is the RDMA write that carries its data, and the client's key
// is not invalidated.
#include <deque>
#include <string>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/test_story.hpp"

namespace rtrs::spec {

namespace {

constexpr std::uint8_t kExtensions = kKeysStayExtension | kDataWithAnswerExtension;
constexpr std::uint32_t kFlags = kKeysStayFlag | kDataWithAnswerFlag;

// Sets `bits` and clears `none` in one byte of the event. Stores the new bytes permanently, because events do
// not own them.
void set_bits(Event& event, std::size_t at, unsigned bits, unsigned none = 0) {
  static std::deque<std::string> kept;
  std::string& bytes = kept.emplace_back(event.bytes);
  bytes[at] = static_cast<char>((static_cast<unsigned char>(bytes[at]) | bits) & ~none);
  event.bytes = bytes;
}

std::uint32_t without_invalidation(std::uint32_t imm) {
  return kIoRsp << 28 | imm_payload(imm);
}

}  // namespace

Story joined_server_story() {
  Story story = server_story();
  for (Event& event : story.events()) {
    if (event.kind == Kind::BeginServerSession) event.settings.extensions |= kExtensions;
    if (event.kind == Kind::ConnectRequested) event.extensions |= kExtensions;
    if (event.kind == Kind::Accept) event.flags |= kFlags;
  }
  Event& response = story.at(Kind::PostResponse);
  response.imm = without_invalidation(response.imm);
  response.send_invalidate = false;
  response.data_with_answer = true;
  response.cookie = story.at(Kind::SendDone).cookie = 1;
  return story;
}

Story joined_wire_story() {
  Story story = wire_story();
  for (Event& event : story.events()) {
    if (event.kind != Kind::WireCm) continue;
    if (event.cm == CmKind::req) set_bits(event, 45, kExtensions);
    if (event.cm == CmKind::rep) set_bits(event, 17, kFlags >> 8);
  }
  Event& data = story.at(Kind::WireReceived, 2);
  data.op = WireOp::write_imm;
  data.has_imm = true;
  data.imm = without_invalidation(story.at(Kind::WireReceived, 4).imm);
  story.drop(Kind::WireReceived, 4);
  story.drop(Kind::WireReceived, 3);
  return story;
}

static const std::vector<Spoiled> kJoinedServerCases = {
    {Rule::response_data, "the data has a message of its own",
     [](Story& s) { s.at(Kind::PostResponse).data_with_answer = false; }},
    {Rule::response_data, "an error in the place of data",
     [](Story& s) { s.at(Kind::PostResponse, 1).data_with_answer = true; }},
    {Rule::response_data, "a READ without its data",
     [](Story& s) { s.at(Kind::PostResponse).write_data = false; }},
};
static const std::vector<Spoiled> kJoinedWireCases = {
    {Rule::io_rsp_data, "to another address", [](Story& s) { ++s.at(Kind::WireReceived, 2).remote_addr; }},
    {Rule::io_rsp_data, "with another key", [](Story& s) { ++s.at(Kind::WireReceived, 2).rkey; }},
    {Rule::io_rsp_data, "more than was offered", [](Story& s) { ++s.at(Kind::WireReceived, 2).length; }},
    {Rule::io_rsp_data, "data with an error", [](Story& s) { s.at(Kind::WireReceived, 2).imm |= 5U << 19; }},
    {Rule::io_rsp_data, "data for a WRITE", [](Story& s) { s.at(Kind::WireReceived, 1).length = 512; }},
    {Rule::io_rsp_data, "twice", [](Story& s) { s.repeat(Kind::WireReceived, 2); }},
    {Rule::io_rsp_invalidate, "and tells of an invalidation",
     [](Story& s) { s.at(Kind::WireReceived, 2).imm += 1U << 28; }},
    {Rule::io_rsp_form, "to a client that did not ask for it",
     [](Story& s) {
       for (Event& event : s.events())
         if (event.kind == Kind::WireCm && event.cm == CmKind::req)
           set_bits(event, 45, 0, kDataWithAnswerExtension);
     }},
};

const std::vector<Spoiled>& joined_server_cases() {
  return kJoinedServerCases;
}
const std::vector<Spoiled>& joined_wire_cases() {
  return kJoinedWireCases;
}

}  // namespace rtrs::spec
