// Tests unanswered requests: how the oldest is found, and the effect of request_timeout.
#include "core/proto/test_client_session.hpp"

namespace rtrs::client_overdue_test {
namespace {

ClientConfig impatient() {
  ClientConfig config = small_config();
  config.request_timeout = seconds(60);
  return config;
}

class ClientOverdueTest : public ClientSessionFixture {
 protected:
  ClientOverdueTest() : ClientSessionFixture(impatient()) { flags |= wire::kConnRspProbe; }

  // Advances the time to `end`, while the peer answers the heartbeats on every connection of every connected
  // path.
  void live_until(Nanos end) {
    while (session.next_deadline() <= end) {
      for (std::uint16_t path = 0; path < 2; ++path)
        for (std::uint16_t con = 0; con < 2 && session.path(path).connected(); ++con)
          feed(ImmReceived{now, key(path, con), wire::encode_hb(wire::ImmType::hb_ack)});
      feed(DeadlineReached{session.next_deadline()});
      for (const PostImm& post : asked<PostImm>())
        if (post.cookie != 0) feed(SendDone{now, post.key, post.cookie});
      if (!session.path(0).connected() || !session.path(1).connected()) return;
    }
  }
};

TEST_F(ClientOverdueTest, OldestRequestInFlightIsReported) {
  open(2);
  OldestRequest oldest;
  EXPECT_FALSE(session.oldest_in_flight(oldest));
  submit();
  const PostRequest first = only<PostRequest>();
  const Nanos sent = now;
  now += seconds(1);
  submit();
  ASSERT_TRUE(session.oldest_in_flight(oldest));
  EXPECT_EQ(oldest.since, sent);
  EXPECT_EQ(oldest.path, first.key.path);
  EXPECT_EQ(oldest.con, first.key.con);
  respond(first);
  ASSERT_TRUE(session.oldest_in_flight(oldest));
  EXPECT_EQ(oldest.since, sent + seconds(1));
}

TEST_F(ClientOverdueTest, OverdueRequestFailsAndOthersFailOver) {
  open(2);
  submit();
  const PostRequest stuck = only<PostRequest>();
  const Nanos sent = now;
  live_until(sent + seconds(40));
  // One of the next two requests uses the path of the first request.
  submit();
  submit();
  live_until(sent + seconds(100));
  EXPECT_EQ(session.path(stuck.key.path).reason(), Reason::request_timeout);
  EXPECT_EQ(now, sent + seconds(60));
  EXPECT_TRUE(asked<Complete>().empty()) << "the fabric uses its memory until the path is drained";
  drain(stuck.key.path);
  EXPECT_EQ(only<Complete>().permit, stuck.permit);
  EXPECT_EQ(only<Complete>().result, Errc::request_timeout);
  // The chunk stays unused until the fence is answered; then the other request continues.
  EXPECT_EQ(session.permit(stuck.permit).state, Permit::State::abandoned);
  const SendFenceReq fence = only<SendFenceReq>();
  feed(FenceAnswered{now, fence.key, fence.serial, 0});
  EXPECT_EQ(session.permit(stuck.permit).state, Permit::State::free);
  EXPECT_EQ(only<FailedOver>().from, stuck.key.path);
}

TEST_F(ClientOverdueTest, EachStepClosesOnePathWithOverdueRequests) {
  open(2);
  submit();
  submit();
  const Nanos sent = now;
  live_until(sent + seconds(60));
  ASSERT_EQ(now, sent + seconds(60));
  EXPECT_NE(session.path(0).connected(), session.path(1).connected());
  ASSERT_EQ(session.next_deadline(), now);
  feed(DeadlineReached{now});
  EXPECT_FALSE(session.path(0).connected() || session.path(1).connected());
  EXPECT_GT(session.next_deadline(), now);
}

// Setting the timer for each request would be expensive for a busy client.
TEST_F(ClientOverdueTest, TimerFiresOncePerTimeoutDespiteAnsweredRequests) {
  ClientConfig config = impatient();
  config.heartbeat.interval = kNever;
  session = ClientSession(config);
  open(1);
  const Nanos begin = now;
  unsigned due = 0;
  for (unsigned request = 0; request < 3000; ++request) {
    submit();
    const PostRequest sent = only<PostRequest>();
    if (sent.cookie != 0) feed(SendDone{now, sent.key, sent.cookie});
    now += milliseconds(100);
    for (; session.next_deadline() <= now; ++due) feed(DeadlineReached{now});
    respond(sent);
  }
  EXPECT_TRUE(session.path(0).connected());
  EXPECT_GE(due, 4U);
  EXPECT_LE(due, (now - begin) / config.request_timeout + 1);
}

TEST_F(ClientOverdueTest, RequestIsOverdueInTimeAfterEarlierOnesWereAnswered) {
  open(2);
  submit();
  const PostRequest first = only<PostRequest>();
  live_until(now + seconds(40));
  submit();
  const Nanos sent = now;
  const PostRequest second = only<PostRequest>();
  respond(first);
  live_until(sent + seconds(100));
  EXPECT_EQ(session.path(second.key.path).reason(), Reason::request_timeout);
  EXPECT_EQ(now, sent + seconds(60));
}

TEST_F(ClientOverdueTest, KernelServerChunkStaysUnusedUntilTheNextIncarnation) {
  flags = 0;
  open(2);
  submit();
  const PostRequest stuck = only<PostRequest>();
  live_until(now + seconds(100));
  drain(stuck.key.path);
  EXPECT_EQ(only<Complete>().result, Errc::request_timeout);
  EXPECT_EQ(session.permit(stuck.permit).state, Permit::State::abandoned);
  pass(seconds(10));
  bring_up(stuck.key.path);
  EXPECT_EQ(session.permit(stuck.permit).state, Permit::State::free);
}

// Regression test: seed 91221 of the simulator failed.
TEST_F(ClientOverdueTest, RequestsWaitAtMostQueueTimeoutForAUsablePermit) {
  ClientConfig config = impatient();
  config.max_depth = 1;
  session = ClientSession(config);
  flags = 0;
  open(2);
  submit();
  const PostRequest stuck = only<PostRequest>();
  EXPECT_EQ(session.path_wait_ends(now), kNever);
  live_until(now + seconds(100));
  EXPECT_EQ(session.path_wait_ends(now), kNever) << "the path is not drained yet";
  drain(stuck.key.path);
  ASSERT_EQ(session.connected_paths(), 1U);
  EXPECT_EQ(session.permits_given_up(), 1U);
  EXPECT_EQ(session.path_wait_ends(0), now + config.queue_timeout);
  EXPECT_EQ(session.path_wait_ends(now + 7), now + 7 + config.queue_timeout);
  // The loss of the last path does not restart the wait.
  const Nanos ends = now + config.queue_timeout;
  pass(seconds(10));
  const auto other = static_cast<std::uint16_t>(1 - stuck.key.path);
  lose(other);
  EXPECT_EQ(session.path_wait_ends(0), ends);
  bring_up(stuck.key.path);
  EXPECT_EQ(session.permits_given_up(), 0U);
  EXPECT_EQ(session.path_wait_ends(0), kNever);
}

TEST_F(ClientOverdueTest, RemovedPathOfAKernelServerFreesItsPermits) {
  flags = 0;
  open(2);
  submit();
  const PostRequest stuck = only<PostRequest>();
  live_until(now + seconds(100));
  drain(stuck.key.path);
  ASSERT_EQ(session.permits_given_up(), 1U);
  feed(PathRemoveRequested{now, stuck.key.path});
  EXPECT_EQ(session.permits_given_up(), 1U);
  now += session.config().fence_timeout;
  feed(DeadlineReached{now});
  EXPECT_EQ(session.permits_given_up(), 0U);
}

// The server breaks the connection over a request and accepts the client again each time.
TEST_F(ClientOverdueTest, RequestWithRepeatedPathLossFailsAfterBothTimeouts) {
  ClientConfig config = impatient();
  config.queue_timeout = seconds(30);
  session = ClientSession(config);
  open(1);
  const Nanos sent = now;
  submit();
  unsigned losses = 0;
  while (asked<Complete>().empty() && losses < 1000) {
    OldestRequest oldest;
    EXPECT_TRUE(session.oldest_in_flight(oldest));
    EXPECT_EQ(oldest.since, sent) << "time of the first send, despite replays";
    now += seconds(1);
    lose(0);
    drain(0);
    ++losses;
    if (!asked<Complete>().empty()) break;
    EXPECT_LT(now, sent + seconds(90));
    ASSERT_TRUE(session.oldest_in_flight(oldest));
    EXPECT_EQ(oldest.since, sent) << "also while it waits for a path";
    while (session.path(0).state() != PathState::connecting && asked<Complete>().empty())
      feed(DeadlineReached{session.next_deadline()});
    if (asked<Complete>().empty()) bring_up(0);
  }
  ASSERT_EQ(asked<Complete>().size(), 1U);
  EXPECT_EQ(only<Complete>().result, Errc::request_timeout);
  EXPECT_EQ(now, sent + seconds(90));
  EXPECT_GT(losses, 2U);
  // The chunk stays unused, and a write delays later requests, until there is proof that the server will not
  // execute the failed request.
  EXPECT_EQ(session.permits_given_up(), 1U);
}

TEST_F(ClientOverdueTest, RequestIsResentWithoutLimitIfEitherTimeoutIsNever) {
  for (const bool queue_ends : {false, true}) {
    ClientConfig config = small_config();
    (queue_ends ? config.queue_timeout : config.request_timeout) = seconds(30);
    (queue_ends ? config.request_timeout : config.queue_timeout) = kNever;
    session = ClientSession(config);
    open(1);
    submit();
    for (unsigned losses = 0; losses < 100; ++losses) {
      now += seconds(1);
      lose(0);
      drain(0);
      EXPECT_TRUE(asked<Complete>().empty());
      while (session.path(0).state() != PathState::connecting) feed(DeadlineReached{session.next_deadline()});
      bring_up(0);
    }
  }
}

TEST_F(ClientOverdueTest, RequestWaitingForAFenceFailsAfterBothTimeouts) {
  open(2);
  submit();
  const PostRequest stuck = only<PostRequest>();
  const Nanos sent = now;
  lose(stuck.key.path);
  drain(stuck.key.path);
  ASSERT_EQ(asked<SendFenceReq>().size(), 1U);
  const auto ends = sent + session.config().request_timeout + session.config().queue_timeout;
  while (now < ends + seconds(1000)) {
    // The server answers only heartbeats, and the lost path does not reconnect.
    for (std::uint16_t con = 0; con < 2; ++con)
      feed(ImmReceived{now, key(1 - stuck.key.path, con), wire::encode_hb(wire::ImmType::hb_ack)});
    feed(DeadlineReached{session.next_deadline()});
    if (!asked<Complete>().empty()) break;
    for (const PostImm& post : asked<PostImm>())
      if (post.cookie != 0) feed(SendDone{now, post.key, post.cookie});
  }
  EXPECT_EQ(only<Complete>().result, Errc::request_timeout);
  EXPECT_EQ(now, ends);
}

TEST_F(ClientOverdueTest, EndedSessionHasNoDeadline) {
  open(1);
  submit();
  respond(only<PostRequest>());
  feed(CloseRequested{now});
  drain(0);
  ASSERT_TRUE(session.ended());
  EXPECT_EQ(session.next_deadline(), kNever);
}

TEST_F(ClientOverdueTest, IsOffByDefault) {
  session = ClientSession(small_config());
  open(2);
  submit();
  live_until(now + seconds(10'000));
  EXPECT_TRUE(session.path(0).connected());
  EXPECT_TRUE(session.path(1).connected());
}

}  // namespace
}  // namespace rtrs::client_overdue_test
