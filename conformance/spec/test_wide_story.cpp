// A path with more connections than one step processes: Continued steps complete its setup and its close.
#include "conformance/spec/connection.hpp"
#include "conformance/spec/test_story.hpp"

namespace rtrs::spec {

namespace {

constexpr auto kStep = static_cast<std::uint16_t>(kConsAStep);
constexpr std::uint16_t kCons = kStep + 4;

Settings settings() {
  Settings settings;
  settings.con_num = kCons;
  settings.depth = 2;
  settings.send_depth = 8;
  settings.handshake_timeout = 30 * kSecond;
  settings.heartbeat_interval = 5 * kSecond;
  settings.heartbeat_missed_max = 5;
  return settings;
}

// Adds one action for each connection; the last four are in a second step.
void in_two_steps(Story& story, Kind action, const std::function<void()>& first_ends) {
  const Story::Change receives = [](Event& e) { e.count = 16; };
  for (std::uint16_t con = 0; con < kCons; ++con) {
    if (con == kStep) first_ends();
    if (con == kStep) story.add(Kind::Continued);
    story.add(action, on(0, con, 1, receives));
  }
}

void end(Story& story, PathState gone) {
  story.add(Kind::CloseRequested);
  in_two_steps(story, Kind::Disconnect, [&story] {
    story.add(Kind::PathChanged, path_is(0, PathState::closing));
    story.add(Kind::LinkChanged, [](Event& e) { e.up = false; });
  });
  for (std::uint16_t con = 0; con < kCons; ++con) story.add(Kind::ConnectionClosed, on(0, con, 1));
  story.add(Kind::ReleasePath);
  story.add(Kind::PathChanged, path_is(0, gone));
  story.add(Kind::EndSession);
}

// Adds the input that completes the path's setup, and the actions of that input.
void complete_setup(Story& story, Kind asked) {
  story.add(asked, on(0, 0, 1));
  in_two_steps(story, Kind::PostReceive, [] {});
}

void is_up(Story& story) {
  story.add(Kind::PathChanged, path_is(0, PathState::connected));
  story.add(Kind::LinkChanged, [](Event& e) { e.up = true; });
}

}  // namespace

Story wide_client_story() {
  Story story;
  story.add(Kind::BeginClient, [](Event& e) { e.settings = settings(); });
  story.add(Kind::PathAdded);
  for (std::uint16_t con = 0; con < kCons; ++con) {
    story.add(Kind::Connect,
              on(0, con, 1, [](Event& e) { e.cid_num = kCons, e.recon_cnt = 1, e.first_conn = true; }));
    if (con == 0) story.add(Kind::PathChanged, path_is(0, PathState::connecting));
    story.add(Kind::Connected, on(0, con, 1, [](Event& e) {
                e.queue_depth = 2, e.max_io_size = 4096, e.max_hdr_size = 4096;
              }));
  }
  story.add(Kind::PostReceive, on(0, 0, 1, [](Event& e) { e.count = 1; }));
  story.add(Kind::SendInfoReq, on(0, 0, 1));
  complete_setup(story, Kind::InfoAccepted);
  is_up(story);
  end(story, PathState::closed);
  return story;
}

Story wide_server_story() {
  Story story;
  story.add(Kind::BeginServerSession, [](Event& e) { e.settings = settings(); });
  for (std::uint16_t con = 0; con < kCons; ++con) {
    story.add(Kind::ConnectRequested, on(0, con, 1, [=](Event& e) {
                e.request = con + 1U, e.uuid[0] = 1, e.address_pair = 100, e.cid_num = kCons;
              }));
    if (con == 0) story.add(Kind::PathChanged, path_is(0, PathState::connecting));
    story.add(Kind::Accept, on(0, con, 1, [=](Event& e) { e.request = con + 1U; }));
    if (con == 0) story.add(Kind::PostReceive, on(0, 0, 1, [](Event& e) { e.count = 1; }));
  }
  complete_setup(story, Kind::InfoRequested);
  story.add(Kind::SendInfoRsp, on(0, 0, 1));
  is_up(story);
  end(story, PathState::absent);
  return story;
}

const std::vector<Spoiled>& wide_client_cases() {
  static const std::vector<Spoiled> cases = {
      {Rule::path_teardown, "a connection of a large path is left",
       [](Story& s) { s.drop(Kind::Disconnect, -1); }},
      {Rule::path_connected, "a large path is not connected when all its connections have receives",
       [](Story& s) { s.drop(Kind::PathChanged, 1); }},
  };
  return cases;
}

const std::vector<Spoiled>& wide_server_cases() {
  static const std::vector<Spoiled> cases = {
      {Rule::path_teardown, "a connection of a large path is left",
       [](Story& s) { s.drop(Kind::Disconnect, -1); }},
      {Rule::info_answer, "INFO_REQ over a large path is not answered",
       [](Story& s) {
         s.drop(Kind::SendInfoRsp);
         s.drop(Kind::PathChanged, 1);
       }},
  };
  return cases;
}

}  // namespace rtrs::spec
