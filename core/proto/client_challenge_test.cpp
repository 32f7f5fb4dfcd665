// Tests a server that requires a proof of the shared key (protocol section 12): the attempt restarts at once,
// but only once.
#include "core/proto/test_client_session.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::client_challenge_test {
namespace {

class ClientChallengeTest : public ClientSessionFixture {
 protected:
  using ClientSessionFixture::ClientSessionFixture;
  void challenge(std::uint16_t path, std::uint16_t con = 0) {
    feed(ConnectFailed{now, key(path, con), Reason::challenged, wire::linux_errno::kEacces});
  }
};

TEST_F(ClientChallengeTest, ChallengeStartsANewAttemptAtOnce) {
  add_path(0);
  const Connect first = only<Connect>();
  challenge(0);
  EXPECT_EQ(session.path(0).state(), PathState::draining);
  EXPECT_EQ(session.path(0).reason(), Reason::challenged);
  drain(0);
  const Connect second = only<Connect>();
  EXPECT_EQ(second.recon_cnt, first.recon_cnt + 1);
  EXPECT_NE(second.key, first.key);
  EXPECT_EQ(second.first_conn, first.first_conn);
  bring_up(0);
}

TEST_F(ClientChallengeTest, SecondChallengeFailsTheAttemptAndIsRetriedLater) {
  add_path(0);
  for (int round = 0; round < 3; ++round) {
    challenge(0);
    drain(0);
    challenge(0);
    EXPECT_EQ(session.path(0).reason(), Reason::key_refused);
    EXPECT_EQ(session.path(0).peer_errno(), wire::linux_errno::kEacces);
    drain(0);
    ASSERT_EQ(session.path(0).state(), PathState::waiting);
    EXPECT_GE(session.next_deadline() - now, session.config().reconnect_min);
    EXPECT_EQ(session.path(0).attempts(), static_cast<std::uint32_t>(round) + 1);
    pass(seconds(40));
    ASSERT_EQ(session.path(0).state(), PathState::connecting);
  }
}

TEST_F(ClientChallengeTest, ChallengeOfALaterConnectionRestartsTheAttempt) {
  add_path(0);
  feed(accepted(key(0, 0)));
  challenge(0, 1);
  drain(0);
  EXPECT_EQ(only<Connect>().key.con, 0);
  feed(accepted(key(0, 0)));
  challenge(0, 1);
  EXPECT_EQ(session.path(0).reason(), Reason::key_refused);
}

TEST_F(ClientChallengeTest, DisconnectedPathDoesNotAnswer) {
  add_path(0);
  challenge(0);
  feed(PathDisconnectRequested{now, 0});
  drain(0);
  EXPECT_EQ(session.path(0).state(), PathState::closed);
  EXPECT_TRUE(asked<Connect>().empty());
}

TEST_F(ClientChallengeTest, LaterAttemptMayBeChallengedAgain) {
  open(1);
  lose(0);
  drain(0);
  pass(seconds(40));
  challenge(0);
  drain(0);
  EXPECT_TRUE(only<Connect>().first_conn);
  bring_up(0);
  EXPECT_EQ(session.path(0).attempts(), 0U);
}

// While the first connection of the challenged path drains, the path remains the one that may create the
// session.
TEST_F(ClientChallengeTest, ChallengedPathKeepsTheLead) {
  add_path(0);
  add_path(1);
  ASSERT_TRUE(session.path(1).held_back());
  challenge(0);
  ASSERT_TRUE(session.path(1).held_back());
  drain(0);
  EXPECT_EQ(only<Connect>().key.path, 0);
  EXPECT_TRUE(session.path(0).leads());
  EXPECT_TRUE(session.path(1).held_back());
}

// The head start of the first path has expired and both paths try to create the session, so neither path
// waits for the other.
TEST_F(ClientChallengeTest, AnswerDoesNotWaitForOtherPaths) {
  add_path(0);
  add_path(1);
  pass(session.config().lead_head_start);
  ASSERT_EQ(session.path(1).state(), PathState::connecting);
  challenge(0);
  drain(0);
  EXPECT_EQ(session.path(0).state(), PathState::connecting);
}

// Another path created the session while the challenged path drained, so the challenged path joins it.
TEST_F(ClientChallengeTest, AnswerJoinsASessionCreatedMeanwhile) {
  add_path(0);
  add_path(1);
  pass(session.config().lead_head_start);
  challenge(0);
  bring_up(1);
  drain(0);
  EXPECT_EQ(session.path(0).state(), PathState::connecting);
  EXPECT_FALSE(only<Connect>().first_conn);
}

class ClientFewAttemptsTest : public ClientChallengeTest {
 protected:
  static ClientConfig config() {
    ClientConfig few = small_config();
    few.max_reconnect_attempts = 1;
    return few;
  }
  ClientFewAttemptsTest() : ClientChallengeTest(config()) {}
};

TEST_F(ClientFewAttemptsTest, ChallengeDoesNotCountAsAnAttempt) {
  add_path(0);
  EXPECT_EQ(session.path(0).attempts(), 1U);
  challenge(0);
  drain(0);
  EXPECT_EQ(session.path(0).attempts(), 1U);
  EXPECT_EQ(session.path(0).state(), PathState::connecting);
  challenge(0);
  drain(0);
  EXPECT_EQ(session.path(0).state(), PathState::closed);
  EXPECT_EQ(session.path(0).reason(), Reason::attempts_exhausted);
}

}  // namespace
}  // namespace rtrs::client_challenge_test
