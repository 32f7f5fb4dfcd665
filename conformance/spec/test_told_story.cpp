// Notes of received messages, each followed by the input that the driver made from the message.
#include <deque>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/test_story.hpp"

namespace rtrs::spec {

namespace {

std::string_view keep(std::string bytes) {
  static std::deque<std::string> kept;
  return kept.emplace_back(std::move(bytes));
}
void put(std::string& bytes, std::size_t at, std::uint64_t value, unsigned width) {
  for (unsigned i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

std::string read_request() {
  std::string bytes(32 + kReadHeader + kDescriptorBytes, '\0');
  put(bytes, 32, kRead, 2);
  put(bytes, 34, 32, 2);
  put(bytes, 36, 1, 2);
  put(bytes, 38, 1, 2);
  put(bytes, 52, 4096, 4);
  return bytes;
}
std::string write_request() {
  std::string bytes(32 + kWriteHeader, '\0');
  put(bytes, 32, kWrite, 2);
  put(bytes, 34, 32, 2);
  return bytes;
}
std::string con_rsp() {
  std::string bytes(kConRspBytes, '\0');
  put(bytes, 0, 0x1bbd, 2);
  put(bytes, 2, 0x200, 2);
  put(bytes, 6, 8, 2);
  put(bytes, 8, 4096, 4);
  put(bytes, 12, 512, 4);
  put(bytes, 16, 6, 4);
  return bytes;
}

void received(Story& story, std::string bytes, std::uint32_t length, WireOp op = WireOp::write_imm) {
  const std::string_view kept = keep(std::move(bytes));
  story.add(Kind::WireReceived, on(0, 1, 7, [&](Event& e) {
              e.op = op, e.has_imm = true, e.imm = 77, e.length = length, e.bytes = kept;
            }));
}

}  // namespace

Story told_story() {
  Story story;
  received(story, read_request(), 56);
  story.add(Kind::RequestArrived, on(0, 1, 7, [](Event& e) {
              e.reads = e.has_descriptor = e.need_invalidate = true, e.data_len = 4096, e.usr_len = 32;
            }));
  received(story, write_request(), 512 + 36);
  story.add(Kind::RequestArrived, on(0, 1, 7, [](Event& e) { e.data_len = 512, e.usr_len = 32; }));
  return story;
}

const std::vector<Spoiled>& told_cases() {
  static const std::vector<Spoiled> cases = {
      {Rule::told_as_received, "another user header",
       [](Story& s) { s.at(Kind::RequestArrived, 1).usr_len = 28; }},
      {Rule::told_as_received, "a READ for a WRITE",
       [](Story& s) { s.at(Kind::RequestArrived, 1).reads = true; }},
      {Rule::told_as_received, "NEED_INVAL is forgotten",
       [](Story& s) { s.at(Kind::RequestArrived).need_invalidate = false; }},
  };
  return cases;
}

Story told_client_story() {
  Story story;
  const std::string_view response = keep(con_rsp());
  story.add(Kind::WireCm, on(0, 1, 7, [&](Event& e) { e.cm = CmKind::rep, e.bytes = response; }));
  story.add(Kind::Connected, on(0, 1, 7, [](Event& e) {
              e.queue_depth = 8, e.max_io_size = 4096, e.max_hdr_size = 512, e.flags = 6;
            }));
  received(story, "", 0);
  story.add(Kind::ImmReceived, on(0, 1, 7, [](Event& e) { e.imm = 77; }));
  return story;
}

const std::vector<Spoiled>& told_client_cases() {
  static const std::vector<Spoiled> cases = {
      {Rule::told_as_received, "another depth", [](Story& s) { s.at(Kind::Connected).queue_depth = 9; }},
      {Rule::told_as_received, "other flags", [](Story& s) { s.at(Kind::Connected).flags = 7; }},
      {Rule::told_as_received, "another size", [](Story& s) { s.at(Kind::Connected).max_io_size = 8192; }},
      {Rule::told_as_received, "another immediate", [](Story& s) { s.at(Kind::ImmReceived).imm = 78; }},
      {Rule::told_as_received, "no message", [](Story& s) { s.drop(Kind::WireReceived); }},
  };
  return cases;
}

}  // namespace rtrs::spec
