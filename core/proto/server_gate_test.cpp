// Tests requests whose chunk is still in use by a request of another path.
#include "core/proto/test_server_session.hpp"

namespace rtrs::server_gate_test {
namespace {

using ServerChunksTest = ServerSessionTest;

TEST_F(ServerChunksTest, L01L02ReplayWaitsForTheOlderUser) {
  const Keys a = bring_up(1);
  const Keys b = bring_up(2);
  const Deliver old = serve(write(a.io, 3));
  feed(ConnectionLost{0, a.io, Reason::heartbeat_lost});
  feed(write(b.io, 3));
  EXPECT_TRUE(none<Deliver>());
  EXPECT_EQ(only<PostReceive>().key, b.io);
  EXPECT_EQ(session->counters().gated, 1U);
  respond(old);
  EXPECT_TRUE(none<PostResponse>()) << "the path of the old request is lost";
  EXPECT_EQ(session->counters().dropped_responses, 1U);
  const auto replay = only<Deliver>();
  EXPECT_EQ(replay.key, b.io);
  EXPECT_TRUE(replay.parked);
  respond(replay);
  EXPECT_EQ(only<PostResponse>().key, b.io);
}

TEST_F(ServerChunksTest, L02ReplayWaitsAlsoWhileTheOldPathSeemsAlive) {
  const Keys a = bring_up(1);
  const Keys b = bring_up(2);
  const Deliver old = serve(read(a.io, 3));
  feed(read(b.io, 3));
  EXPECT_TRUE(none<Deliver>());
  respond(old);
  EXPECT_EQ(only<PostResponse>().key, a.io);
  EXPECT_EQ(only<Deliver>().key, b.io);
}

TEST_F(ServerChunksTest, WaitingRequestOfALostPathIsNeverServed) {
  const Keys a = bring_up(1);
  const Keys b = bring_up(2);
  const Deliver old = serve(write(a.io, 3));
  feed(write(b.io, 3));
  feed(ConnectionLost{0, b.io, Reason::peer_closed});
  close_connections(b);
  EXPECT_EQ(all<ReleasePath>().size(), 1U) << "a waiting request does not delay the release of its path";
  bring_up(2, 2);
  respond(old);
  EXPECT_TRUE(none<Deliver>());
  EXPECT_TRUE(session->chunk_idle(3));
}

TEST_F(ServerChunksTest, WaitingRequestOfALostPathIsReplaced) {
  const Keys a = bring_up(1);
  const Keys b = bring_up(2);
  const Keys c = bring_up(3);
  const Deliver old = serve(write(a.io, 3));
  feed(write(b.io, 3));
  EXPECT_TRUE(session->is_awaited(3));
  feed(ConnectionLost{0, b.io, Reason::peer_closed});
  EXPECT_FALSE(session->is_awaited(3));
  feed(write(c.io, 3));
  respond(old);
  EXPECT_EQ(only<Deliver>().key, c.io);
}

TEST_F(ServerChunksTest, L01LaterReplayReplacesAWaitingOne) {
  const Keys a = bring_up(1);
  const Keys b = bring_up(2);
  const Keys c = bring_up(3);
  const Deliver old = serve(write(a.io, 3));
  feed(write(b.io, 3));
  EXPECT_TRUE(session->will_wait_for_chunk(write(c.io, 3)));
  feed(write(c.io, 3));
  expect_closing(b.io, Reason::superseded);
  respond(old);
  EXPECT_EQ(only<Deliver>().key, c.io);
}

TEST_F(ServerChunksTest, R36SecondRequestOfAnIncarnationForItsChunkIsAViolation) {
  const Keys a = bring_up(1);
  const Keys b = bring_up(2);
  const Deliver old = serve(write(a.io, 3));
  feed(write(b.io, 3));
  EXPECT_FALSE(session->will_wait_for_chunk(write(b.io, 3)));
  EXPECT_FALSE(session->will_wait_for_chunk(write(a.io, 3)));
  feed(write(b.io, 3));
  expect_closing(b.io, Reason::protocol_violation);
  respond(old);
  EXPECT_EQ(only<PostResponse>().key, a.io);
}

TEST_F(ServerChunksTest, L02WriteNeverWaitsBehindAReadThatFillsItsChunk) {
  const Keys a = bring_up(1);
  const Keys b = bring_up(2);
  const Deliver old = serve(read(a.io, 3));
  EXPECT_FALSE(session->will_wait_for_chunk(write(b.io, 3)));
  feed(write(b.io, 3));
  expect_closing(b.io, Reason::rejected_busy);
  respond(old);
  EXPECT_TRUE(none<Deliver>());
}

}  // namespace
}  // namespace rtrs::server_gate_test
