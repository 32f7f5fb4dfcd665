#include "core/proto/test_server_session.hpp"

namespace rtrs::server_fence_test {
namespace {

using ServerFenceTest = ServerSessionTest;

TEST_F(ServerFenceTest, FenceOfAnUnknownPathIsAnsweredAtOnce) {
  const Keys keys = bring_up(1);
  feed(FenceRequested{0, keys.service, 42, 7, uuid(9)});
  EXPECT_EQ(only<PostReceive>().kind, ReceiveKind::message);
  const auto answer = only<SendFenceRsp>();
  EXPECT_EQ(answer.key, keys.service);
  EXPECT_EQ(answer.serial, 42U);
  EXPECT_EQ(answer.peer_errno, 0);
  EXPECT_EQ(answer.sess_uuid, uuid(9));
}

TEST_F(ServerFenceTest, NewerIncarnationProvesTheOlderIsDrained) {
  const Keys keys = bring_up(1);
  const Keys target = bring_up(2, 3);
  feed(FenceRequested{0, keys.service, 42, 2, uuid(2)});
  EXPECT_EQ(all<SendFenceRsp>().size(), 1U);
  EXPECT_EQ(state(target.io), PathState::connected);
}

TEST_F(ServerFenceTest, L01AnsweredOnlyWhenTheOldIncarnationIsDrained) {
  const Keys keys = bring_up(1);
  const Keys target = bring_up(2, 3);
  const Deliver old = serve(write(target.io, 5));
  feed(FenceRequested{0, keys.service, 42, 3, uuid(2)});
  expect_closing(target.io, Reason::fenced);
  EXPECT_TRUE(none<SendFenceRsp>());
  close_connections(target);
  EXPECT_TRUE(none<SendFenceRsp>());
  respond(old);
  EXPECT_EQ(only<SendFenceRsp>().serial, 42U);
}

TEST_F(ServerFenceTest, FenceWaitsForAClosingPath) {
  const Keys keys = bring_up(1);
  const Keys target = bring_up(2);
  feed(ConnectionLost{0, target.io, Reason::peer_closed});
  feed(FenceRequested{0, keys.service, 42, 1, uuid(2)});
  EXPECT_TRUE(none<SendFenceRsp>() && none<Disconnect>());
  close_connections(target);
  EXPECT_EQ(all<SendFenceRsp>().size(), 1U);
}

TEST_F(ServerFenceTest, HalfOpenPathCanBeFenced) {
  const Keys keys = bring_up(1);
  const ConKey target = connect(2, 0);
  feed(FenceRequested{0, keys.service, 42, 5, uuid(2)});
  expect_closing(target, Reason::fenced);
  feed(ConnectionClosed{0, target});
  EXPECT_EQ(all<SendFenceRsp>().size(), 1U);
}

TEST_F(ServerFenceTest, EveryRequesterIsAnsweredWithItsLastSerial) {
  const Keys a = bring_up(1);
  const Keys b = bring_up(3);
  const Keys target = bring_up(2);
  feed(FenceRequested{0, a.service, 1, 1, uuid(2)});
  feed(FenceRequested{0, a.service, 2, 1, uuid(2)});
  feed(FenceRequested{0, b.service, 7, 1, uuid(2)});
  close_connections(target);
  const auto answers = all<SendFenceRsp>();
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].key, a.service);
  EXPECT_EQ(answers[0].serial, 2U);
  EXPECT_EQ(answers[1].key, b.service);
  EXPECT_EQ(answers[1].serial, 7U);
}

TEST_F(ServerFenceTest, AnswerIsDroppedIfTheRequestingPathIsLost) {
  const Keys a = bring_up(1);
  const Keys target = bring_up(2);
  feed(FenceRequested{0, a.service, 1, 1, uuid(2)});
  feed(ConnectionLost{0, a.io, Reason::peer_closed});
  close_connections(target);
  EXPECT_TRUE(none<SendFenceRsp>());
  close_connections(a);
  EXPECT_EQ(all<EndSession>().size(), 1U);
}

TEST_F(ServerFenceTest, AnswerWaitsForRoom) {
  config.send_depth = 8;
  remake();
  const Keys keys = bring_up(1);
  std::vector<std::uint64_t> cookies;
  for (std::uint16_t chunk = 0; chunk < config.queue_depth; ++chunk) {
    respond(serve(write(keys.service, chunk)));
    for (const auto& response : all<PostResponse>()) {
      if (response.cookie != 0) cookies.push_back(response.cookie);
    }
  }
  feed(FenceRequested{0, keys.service, 42, 7, uuid(9)});
  EXPECT_TRUE(none<SendFenceRsp>());
  ASSERT_FALSE(cookies.empty());
  feed(SendDone{0, keys.service, cookies.front()});
  EXPECT_EQ(only<SendFenceRsp>().serial, 42U);
}

TEST_F(ServerFenceTest, NoPathFencesItself) {
  const Keys keys = bring_up(1);
  feed(FenceRequested{0, keys.service, 42, 1, uuid(1)});
  expect_closing(keys.service, Reason::protocol_violation);
}

TEST_F(ServerFenceTest, FenceRequiresTheServiceConnectionAndTheExtension) {
  Keys keys = bring_up(1);
  feed(FenceRequested{0, keys.io, 42, 1, uuid(2)});
  expect_closing(keys.io, Reason::protocol_violation);
  extensions = wire::Extensions::generation;
  keys = bring_up(2);
  feed(FenceRequested{0, keys.service, 42, 1, uuid(3)});
  expect_closing(keys.service, Reason::protocol_violation);
}

}  // namespace
}  // namespace rtrs::server_fence_test
