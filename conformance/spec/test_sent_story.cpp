// A client's connect request, noted as it was sent, and breaches that only its relation to other records
// shows.
#include <deque>
#include <string>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/test_story.hpp"

namespace rtrs::spec {

namespace {

void rewrite(Event& event, std::size_t at, std::uint64_t value, unsigned width) {
  static std::deque<std::string> kept;
  std::string& bytes = kept.emplace_back(event.bytes);
  for (unsigned i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  event.bytes = bytes;
}

}  // namespace

Story sent_story() {
  static const std::string request = [] {
    std::string bytes(kConReqBytes, '\0');
    bytes[2] = '\xbd', bytes[3] = '\x1b', bytes[5] = 2;
    bytes[8] = 2, bytes[10] = 1, bytes[12] = bytes[28] = 9, bytes[44] = 1, bytes[45] = 3;
    return bytes;
  }();
  Story story;
  story.add(Kind::BeginClient, [](Event& e) { e.settings.con_num = 2; });
  story.add(Kind::PathAdded);
  story.add(Kind::Connect, on(0, 0, 1, [](Event& e) {
              e.cid_num = 2, e.recon_cnt = 1, e.extensions = 3, e.first_conn = true;
            }));
  story.add(Kind::PathChanged, path_is(0, PathState::connecting));
  story.add(Kind::WireCm, on(0, 0, 1, [](Event& e) { e.sent = true, e.bytes = request; }));
  return story;
}

const std::vector<Spoiled>& sent_cases() {
  static const std::vector<Spoiled> cases = {
      {Rule::sent_as_decided, "another counter", [](Story& s) { rewrite(s.at(Kind::WireCm), 10, 2, 2); }},
      {Rule::sent_as_decided, "other extensions", [](Story& s) { s.at(Kind::Connect).extensions = 1; }},
      {Rule::sent_as_decided, "nobody decided it", [](Story& s) { s.at(Kind::WireCm).key.con = 1; }},
      {Rule::time_order, "before its cause", [](Story& s) { s.at(Kind::WireCm).now = 0; }},
  };
  return cases;
}

const std::vector<Spoiled>& identity_wire_cases() {
  static const std::vector<Spoiled> cases = {
      {Rule::con_req_session, "path 1 is of another session",
       [](Story& s) { rewrite(s.at(Kind::WireCm, -2), 28, 98, 2); }},
      {Rule::con_rsp_unknown, "first_conn is refused with ENXIO",
       [](Story& s) { rewrite(s.at(Kind::WireCm, -1), 4, 0xfffa, 2); }},
      {Rule::info_req_name, "another name after the reconnect",
       [](Story& s) { rewrite(s.at(Kind::WireSent, -1), 2, 't', 1); }},
      {Rule::hb_wire_silence, "a minute without a message",
       [](Story& s) {
         for (Event& event : s.events())
           if (event.now > kSecond) event.now += 60 * kSecond;
       }},
  };
  return cases;
}

}  // namespace rtrs::spec
