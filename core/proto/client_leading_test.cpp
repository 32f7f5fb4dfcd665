// Tests which path creates the session, and when other paths may create it.
#include "core/proto/test_client_session.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::client_leading_test {
namespace {

class ClientLeadingTest : public ClientSessionFixture {
 protected:
  Nanos head_start() const { return session.config().lead_head_start; }
  void refuse(std::uint16_t path) {
    feed(ConnectFailed{now, key(path, 0), Reason::rejected, wire::linux_errno::kEnxio});
    drain(path);
  }
  // Loses path 0, which was connected. Path 1 was never connected.
  void lose_only_connected_path() {
    add_path(0);
    bring_up(0);
    add_path(1);
    EXPECT_FALSE(only<Connect>().first_conn);
    lose(0);
    drain(0);
  }
  // Like lose_only_connected_path(). Then path 0 gets no response and path 1 is rejected with "unknown
  // session", until path 1 may create the session.
  void recreate_session_over_path_1() {
    lose_only_connected_path();
    refuse(1);
    pass(session.next_deadline() - now);
    while (asked<Connect>().empty() || only<Connect>().key.path != 1) {
      ASSERT_LT(now, seconds(1020));
      if (session.path(0).state() == PathState::connecting) {
        feed(ConnectFailed{now, key(0, 0), Reason::connect_timeout, 0});
        drain(0);
      }
      pass(session.next_deadline() - now);
    }
  }
};

TEST_F(ClientLeadingTest, NextPathLeadsAfterTheHeadStart) {
  add_path(0);
  add_path(1);
  add_path(2);
  EXPECT_EQ(session.path(1).state(), PathState::waiting);
  pass(head_start() - 1);
  EXPECT_TRUE(asked<Connect>().empty());
  pass(1);
  EXPECT_EQ(only<Connect>().key.path, 1);
  EXPECT_TRUE(only<Connect>().first_conn);
  EXPECT_EQ(session.path(0).state(), PathState::connecting);
  pass(head_start());
  EXPECT_EQ(only<Connect>().key.path, 2);
  EXPECT_TRUE(only<Connect>().first_conn);
  bring_up(1);
  EXPECT_TRUE(session.opened());
}

TEST_F(ClientLeadingTest, PathReconnectedWhileClosingWaitsForTheLeadingPath) {
  add_path(0);
  add_path(1);
  pass(head_start());
  EXPECT_EQ(only<Connect>().key.path, 1);
  feed(PathDisconnectRequested{now, 0});
  EXPECT_EQ(session.path(0).state(), PathState::closing);
  feed(PathReconnectRequested{now, 0});
  drain(0);
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
}

TEST(ClientLeading, InfiniteHeadStartAllowsOnePathAtATime) {
  ClientConfig config = small_config();
  config.lead_head_start = kNever;
  ClientSession session(config);
  ClientActions out;
  session.on(PathAdded{seconds(1), 0}, out);
  session.on(PathAdded{seconds(1), 1}, out);
  EXPECT_EQ(session.next_deadline(), seconds(1) + config.connect_timeout);
  EXPECT_EQ(session.path(1).state(), PathState::waiting);
}

TEST_F(ClientLeadingTest, OtherPathsJoinTheSessionOfTheFirstConnectedPath) {
  add_path(0);
  add_path(1);
  pass(head_start());
  // Some server, which may be a wrong one, accepts the first connection of path 0.
  feed(accepted(key(0, 0)));
  bring_up(1);
  EXPECT_EQ(session.path(0).state(), PathState::draining);
  EXPECT_EQ(session.path(0).reason(), Reason::other_path_leads);
  drain(0);
  EXPECT_EQ(only<Connect>().key.path, 0);
  EXPECT_FALSE(only<Connect>().first_conn);
  bring_up(0);
  EXPECT_EQ(session.connected_paths(), 2U);
}

TEST_F(ClientLeadingTest, DifferentDepthIsRejectedBeforeTheSessionIsOpen) {
  add_path(0);
  add_path(1);
  pass(head_start());
  feed(accepted(key(0, 0), 4));
  feed(accepted(key(1, 0), 8));
  EXPECT_EQ(session.path(1).reason(), Reason::depth_changed);
  EXPECT_EQ(session.queue_depth(), 4U);
  // The path that determined the limits is lost before it opened the session.
  lose(0);
  drain(0);
  drain(1);
  pass(seconds(10));
  pass(head_start());
  ASSERT_EQ(session.path(1).state(), PathState::connecting);
  feed(accepted(key(1, 0), 8));
  EXPECT_EQ(session.queue_depth(), 8U);
}

TEST_F(ClientLeadingTest, NeverConnectedPathRecreatesTheSession) {
  recreate_session_over_path_1();
  EXPECT_TRUE(only<Connect>().first_conn);
  bring_up(1);
  EXPECT_EQ(session.connected_paths(), 1U);
}

TEST_F(ClientLeadingTest, UnknownPathWaitsForTheHeadStartOfFormerPaths) {
  lose_only_connected_path();
  const Nanos lost = now;
  refuse(1);
  EXPECT_GE(session.path(1).deadline(), lost + head_start());
}

TEST_F(ClientLeadingTest, UnknownPathNeverLeadsBesideAConnectedOne) {
  add_path(0);
  bring_up(0);
  add_path(1);
  refuse(1);
  for (int i = 0; i < 5; ++i) {
    pass(seconds(4));
    feed(ImmReceived{now, key(0, 1), wire::encode_hb(wire::ImmType::hb_msg)});
    if (session.path(1).state() != PathState::connecting) continue;
    EXPECT_TRUE(session.path(1).joins());
    refuse(1);
  }
}

// A session at the wrong server would get the requests as soon as the right server is down.
TEST_F(ClientLeadingTest, ServerThatRefusedALivingSessionNeverGetsItsOwn) {
  add_path(0);
  bring_up(0);
  add_path(1);
  const Nanos silence = (session.config().heartbeat.missed_max + 2) * session.config().heartbeat.interval;
  const Nanos end = now + 2 * silence + 2 * session.config().reconnect_max;
  while (now < end) {
    if (session.path(1).state() == PathState::connecting) refuse(1);
    pass(seconds(4));
    feed(ImmReceived{now, key(0, 1), wire::encode_hb(wire::ImmType::hb_msg)});
    if (!session.path(0).connected()) break;
  }
  ASSERT_TRUE(session.path(0).connected());
  EXPECT_TRUE(session.path(1).foreign());
  lose(0);
  drain(0);
  for (int i = 0; i < 20; ++i) {
    pass(seconds(10));
    if (session.path(1).state() != PathState::connecting) continue;
    EXPECT_TRUE(session.path(1).joins());
    refuse(1);
  }
}

// Like the previous test, but the right server soon becomes unreachable. A message that the server answered
// after the refusal is sufficient proof.
TEST_F(ClientLeadingTest, ResponseAfterTheSecondRefusalProvesAForeignServer) {
  add_path(0);
  bring_up(0);
  add_path(1);
  const auto refuse_next = [&] {
    while (session.path(1).state() != PathState::connecting) pass(milliseconds(100));
    refuse(1);
  };
  refuse_next();
  refuse_next();
  EXPECT_FALSE(session.path(1).foreign());
  submit();
  const PostRequest sent = only<PostRequest>();
  pass(milliseconds(1));
  respond(sent);
  lose(0);
  EXPECT_TRUE(session.path(1).foreign());
  drain(0);
  for (int i = 0; i < 20; ++i) {
    pass(seconds(10));
    if (session.path(1).state() != PathState::connecting) continue;
    EXPECT_TRUE(session.path(1).joins());
    refuse(1);
  }
}

// A single rejection proves nothing, because the server may have sent it before the session was created.
TEST_F(ClientLeadingTest, OneRefusalProvesNothing) {
  add_path(0);
  bring_up(0);
  add_path(1);
  refuse(1);
  submit();
  const PostRequest sent = only<PostRequest>();
  pass(milliseconds(1));
  respond(sent);
  lose(0);
  EXPECT_FALSE(session.path(1).foreign());
}

class SilentLeadingTest : public ClientLeadingTest {
 protected:
  SilentLeadingTest() {
    ClientConfig config = small_config();
    config.heartbeat.interval = kNever;
    session = ClientSession(config);
  }
};

// Without heartbeats there is no dead-peer time, so rejections alone prove nothing.
TEST_F(SilentLeadingTest, WithoutHeartbeatsRefusalsAloneProveNothing) {
  add_path(0);
  bring_up(0);
  add_path(1);
  for (int i = 0; i < 3; ++i) {
    while (session.path(1).state() != PathState::connecting) pass(milliseconds(100));
    refuse(1);
  }
  EXPECT_FALSE(session.path(1).foreign());
}

// A restarted server rejects all paths, so it is not a different server.
TEST_F(ClientLeadingTest, RestartedServerIsNotForeign) {
  add_path(0);
  bring_up(0);
  submit();
  const PostRequest sent = only<PostRequest>();
  pass(milliseconds(1));
  respond(sent);
  add_path(1);
  for (int i = 0; i < 2; ++i) {
    while (session.path(1).state() != PathState::connecting) pass(milliseconds(100));
    refuse(1);
  }
  lose(0);
  EXPECT_FALSE(session.path(1).foreign());
}

TEST_F(ClientLeadingTest, LeadingPathYieldsToAReconnectedPathOfTheSession) {
  lose_only_connected_path();
  refuse(1);
  pass(seconds(3));
  ASSERT_EQ(session.path(0).state(), PathState::connecting);
  ASSERT_TRUE(session.path(1).leads());
  bring_up(0);
  EXPECT_EQ(session.path(1).reason(), Reason::other_path_leads);
  drain(1);
  EXPECT_FALSE(only<Connect>().first_conn);
}

// Path 1 becomes connected, and the attempt of path 0, which was connected before, fails before the client
// aborts it. Path 0 may lead to a different server, so it must not create a session there.
TEST_F(ClientLeadingTest, FormerPathJoinsIfItsAttemptFailsAsAnotherConnects) {
  recreate_session_over_path_1();
  while (session.path(0).state() != PathState::connecting) pass(session.next_deadline() - now);
  for (std::uint16_t con = 0; con < session.config().con_num; ++con) feed(accepted(key(1, con)));
  step(InfoAccepted{now, key(1, 0)});
  ASSERT_TRUE(session.wants_to_continue());
  feed(ConnectFailed{now, key(0, 0), Reason::rejected_busy, wire::linux_errno::kEbusy});
  drain(0);
  pass(session.next_deadline() - now);
  while (asked<Connect>().empty()) pass(session.next_deadline() - now);
  EXPECT_EQ(only<Connect>().key.path, 0);
  EXPECT_FALSE(only<Connect>().first_conn);
}

}  // namespace
}  // namespace rtrs::client_leading_test
