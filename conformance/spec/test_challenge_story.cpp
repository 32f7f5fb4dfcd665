// A client with a shared key: the server challenges it, accepts one proof and rejects the proof of the next
// attempt.
#include "conformance/spec/test_story.hpp"

namespace rtrs::spec {

namespace {

void attempt(Story& story, std::uint32_t epoch) {
  story.add(Kind::Connect, on(0, 0, epoch, [=](Event& e) {
              e.cid_num = 2, e.recon_cnt = static_cast<std::uint16_t>(epoch), e.first_conn = true;
            }));
  story.add(Kind::PathChanged, path_is(0, PathState::connecting));
}

void refuse(Story& story, std::uint32_t epoch, Reason reason) {
  story.add(Kind::ConnectFailed, on(0, 0, epoch));
  story.add(Kind::Disconnect, on(0, 0, epoch));
  story.add(Kind::PathChanged, path_is(0, PathState::draining, reason));
  story.add(Kind::ConnectionClosed, on(0, 0, epoch));
  story.add(Kind::ReleasePath);
}

}  // namespace

Story challenged_client_story() {
  Story story;
  story.add(Kind::BeginClient, [](Event& e) {
    e.settings.con_num = 2, e.settings.depth = 2, e.settings.send_depth = 8;
    e.settings.policy = Policy::min_inflight;
  });
  story.add(Kind::PathAdded);
  attempt(story, 1);
  refuse(story, 1, Reason::challenged);
  attempt(story, 2);
  refuse(story, 2, Reason::other);
  story.add(Kind::PathChanged, path_is(0, PathState::waiting));
  story.wait(kSecond);
  story.add(Kind::DeadlineReached);
  attempt(story, 3);
  refuse(story, 3, Reason::challenged);
  attempt(story, 4);
  return story;
}

const std::vector<Spoiled> kChallengedCases = {
    {Rule::challenge_once, "the second in a row is answered too",
     [](Story& s) { s.at(Kind::PathChanged, 3).reason = Reason::challenged; }},
    {Rule::challenge_once, "the answer waits",
     [](Story& s) { s.at(Kind::PathChanged, 4).reason = Reason::challenged; }},
};

const std::vector<Spoiled>& challenged_client_cases() {
  return kChallengedCases;
}

}  // namespace rtrs::spec
