// Tests paths with as many connections as the protocol allows, and sessions with as many paths. Work on each
// connection or path is done in batches.
#include <algorithm>

#include "core/proto/server_invariants.hpp"
#include "core/proto/test_server_session.hpp"

namespace rtrs::server_wide_test {
namespace {

class ServerWideTest : public ServerSessionTest {
 protected:
  static constexpr std::uint16_t kWide = 3 * kConsPerStep;  // number of connections

  // Checks that each connection of the only path was disconnected once.
  void expect_all_ended(std::size_t cons) {
    std::vector<ConKey> ended;
    for (const Disconnect& one : all<Disconnect>()) ended.push_back(one.key);
    std::sort(ended.begin(), ended.end());
    EXPECT_EQ(std::unique(ended.begin(), ended.end()), ended.end());
    EXPECT_EQ(ended.size(), cons);
  }
  void expect_sound() { EXPECT_STREQ(broken_invariant(*session), nullptr); }
};

TEST_F(ServerWideTest, LargestPathComesUpAndEndsInBatches) {
  const ConKey service = connect_wide(1, kMaxCons);
  feed(InfoRequested{0, service, 0});
  EXPECT_TRUE(none<SendInfoRsp>() && session->wants_to_continue());
  settle();
  EXPECT_EQ(all<PostReceive>().size(), kMaxCons);
  EXPECT_TRUE(action_if<LinkChanged>(actions.back()) != nullptr) << "receives come before the answer";
  EXPECT_EQ(state(service), PathState::connected);
  feed(ConnectionLost{0, service, Reason::peer_closed});
  EXPECT_EQ(all<Disconnect>().size(), kConsPerStep);
  settle();
  expect_all_ended(kMaxCons);
  expect_sound();
}

TEST_F(ServerWideTest, PathExistsUntilEveryConnectionIsClosed) {
  const ConKey service = bring_up_wide(1, kWide);
  feed(PathDisconnectRequested{0, service.path});
  settle();
  const auto ended = all<Disconnect>();
  for (const Disconnect& one : ended) {
    EXPECT_EQ(state(service), PathState::closing);
    feed(ConnectionClosed{0, one.key});
    expect_sound();
  }
  EXPECT_EQ(state(service), PathState::absent);
  EXPECT_EQ(only<EndSession>().reason, Reason::requested);
}

TEST_F(ServerWideTest, NothingIsServedBeforeEveryConnectionHasReceives) {
  const ConKey service = connect_wide(1, kWide);
  feed(InfoRequested{0, service, 0});
  feed(ImmReceived{0, service, wire::encode_hb(wire::ImmType::hb_msg)});
  settle();
  EXPECT_EQ(state(service), PathState::closing);
  expect_all_ended(kWide);
  EXPECT_TRUE(none<SendInfoRsp>() && !session->wants_to_continue());
  expect_sound();
}

TEST_F(ServerWideTest, SecondInfoDuringTheFirstClosesThePath) {
  const ConKey service = connect_wide(1, kWide);
  feed(InfoRequested{0, service, 0});
  feed(InfoRequested{0, service, 0});
  settle();
  EXPECT_EQ(state(service), PathState::closing);
  expect_all_ended(kWide);
  EXPECT_TRUE(none<SendInfoRsp>());
}

TEST_F(ServerWideTest, LossWhileProbingClosesEveryConnection) {
  config.probe_deliveries = true;
  extensions = wire::Extensions::none;
  remake();
  const ConKey service = bring_up_wide(1, kWide);
  feed(write(service, 0));
  now = session->next_deadline();
  feed(DeadlineReached{});
  ASSERT_TRUE(session->wants_to_continue());
  feed(ConnectionLost{0, service, Reason::peer_closed});
  settle();
  expect_all_ended(kWide);
  EXPECT_TRUE(none<ProbeDelivery>());
  expect_sound();
}

TEST_F(ServerWideTest, SessionWithMaximumPathsCloses) {
  for (unsigned path = 1; path <= kMaxPaths; ++path) bring_up(static_cast<std::uint8_t>(path));
  EXPECT_EQ(session->connected_paths(), kMaxPaths);
  expect_rejected(request(kMaxPaths + 1, 0), Reason::too_many_paths, 104);
  feed(CloseRequested{0});
  settle();
  EXPECT_EQ(all<Disconnect>().size(), 2 * kMaxPaths);
  const auto ended = all<Disconnect>();
  for (const Disconnect& one : ended) feed(ConnectionClosed{0, one.key});
  EXPECT_TRUE(session->ended());
  expect_sound();
}

TEST_F(ServerWideTest, HeartbeatsOfAllPathsDueAtOnceAreSent) {
  for (unsigned path = 1; path <= kMaxPaths; ++path) bring_up(static_cast<std::uint8_t>(path));
  now = session->next_deadline();
  std::size_t sent = 0;
  while (session->next_deadline() <= now) {
    feed(DeadlineReached{});
    settle();
    sent += all<PostImm>().size();
  }
  EXPECT_EQ(sent, kMaxPaths);
}

// All paths except one are lost, and their fences are requested over the remaining path.
TEST_F(ServerWideTest, FencesOfEveryPathAreAnswered) {
  extensions = wire::Extensions::fence;
  const Keys asker = bring_up(1);
  for (unsigned path = 2; path <= kMaxPaths; ++path) bring_up(static_cast<std::uint8_t>(path));
  std::vector<ConKey> ended;
  for (unsigned path = 2; path <= kMaxPaths; ++path) {
    feed(FenceRequested{0, asker.service, path, 1, uuid(static_cast<std::uint8_t>(path))});
    ASSERT_EQ(state(asker.service), PathState::connected);
    for (const Disconnect& one : all<Disconnect>()) ended.push_back(one.key);
  }
  std::size_t answered = 0;
  for (const ConKey& key : ended) {
    feed(ConnectionClosed{0, key});
    for (const SendFenceRsp& one : all<SendFenceRsp>()) {
      ++answered;
      if (one.cookie != 0) feed(SendDone{0, asker.service, one.cookie});
    }
  }
  EXPECT_EQ(answered, kMaxPaths - 1);
  expect_sound();
}

TEST_F(ServerWideTest, FirstEightPathsKeepTheirTraceNumbers) {
  for (const unsigned session_index : {0U, 1U, 7U, 1023U, kMaxSessions - 1}) {
    for (std::uint16_t path = 0; path < kMaxPaths; ++path) {
      const ConKey key{path, 3, 9, static_cast<std::uint16_t>(session_index)};
      ConKey back{0, 3, 9, 0};
      back.set_number(key.number());
      EXPECT_EQ(back, key);
      EXPECT_EQ(key.number() == session_index * 8 + path, path < 8);
    }
  }
}

}  // namespace
}  // namespace rtrs::server_wide_test
