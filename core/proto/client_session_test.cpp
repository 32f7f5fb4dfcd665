// Tests the life cycle of the paths of a client session.
#include <algorithm>
#include <optional>

#include "core/proto/test_client_session.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::client_session_test {
namespace {

class ClientSessionTest : public ClientSessionFixture {};

TEST_F(ClientSessionTest, ConnectsEachConnectionThenSendsInfoReq) {
  feed(PathAdded{now, 0});
  const Connect first = only<Connect>();
  EXPECT_EQ(first.key, (ConKey{0, 0, 1}));
  EXPECT_EQ(first.cid_num, 2);
  EXPECT_EQ(first.recon_cnt, 1);
  EXPECT_TRUE(first.first_conn);
  feed(accepted(first.key));
  EXPECT_EQ(only<Connect>().key, (ConKey{0, 1, 1}));
  feed(accepted({0, 1, 1}));
  EXPECT_TRUE(asked<Connect>().empty());
  EXPECT_EQ(only<PostReceive>().kind, ReceiveKind::info);
  EXPECT_EQ(only<SendInfoReq>().key, (ConKey{0, 0, 1}));
  feed(InfoAccepted{now, {0, 0, 1}});
  EXPECT_TRUE(only<LinkChanged>().up);
  EXPECT_EQ(only<PathChanged>().state, PathState::connected);
  EXPECT_EQ(session.depth(), 4U);
}

TEST_F(ClientSessionTest, OnePathAtATimeCreatesTheSession) {
  add_path(0);
  add_path(1);
  EXPECT_TRUE(asked<Connect>().empty());
  EXPECT_EQ(session.path(1).state(), PathState::waiting);
  bring_up(0);
  // An additional path never creates a session by accident (requirement R10).
  EXPECT_FALSE(only<Connect>().first_conn);
  EXPECT_EQ(session.path(1).state(), PathState::connecting);
}

TEST_F(ClientSessionTest, AnotherPathLeadsWhenTheFirstFails) {
  add_path(0);
  add_path(1);
  feed(ConnectFailed{now, key(0, 0), Reason::connect_refused, 0});
  feed(ConnectionClosed{now, {0, 0, 1}});
  const Connect connect = only<Connect>();
  EXPECT_EQ(connect.key.path, 1);
  EXPECT_TRUE(connect.first_conn);
}

TEST_F(ClientSessionTest, ReconnectsMarkFirstOnceEstablished) {
  open(2);
  lose(1);
  drain(1);
  pass(seconds(40));
  EXPECT_EQ(session.path(1).epoch(), 2U);
  EXPECT_TRUE(only<Connect>().first_conn);
  EXPECT_EQ(only<Connect>().recon_cnt, 2);
}

TEST_F(ClientSessionTest, LossDisconnectsEveryConnectionAndWaitsForEachToClose) {
  open(1);
  lose(0);
  EXPECT_EQ(asked<Disconnect>().size(), 2U);
  EXPECT_FALSE(only<LinkChanged>().up);
  EXPECT_EQ(session.path(0).state(), PathState::draining);
  feed(ConnectionClosed{now, {0, 1, 1}});
  EXPECT_EQ(session.path(0).state(), PathState::draining);
  feed(ConnectionClosed{now, {0, 0, 1}});
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
  EXPECT_EQ(asked<ReleasePath>().size(), 1U);
}

TEST_F(ClientSessionTest, EventsOfOlderIncarnationsAreCountedAndIgnored) {
  open(1);
  lose(0);
  drain(0);
  pass(seconds(40));
  bring_up(0);
  const ClientSession before = session;
  feed(ImmReceived{now, {0, 1, 1}, wire::encode_hb(wire::ImmType::hb_msg)});
  feed(ConnectionLost{now, {0, 0, 1}, Reason::peer_closed});
  EXPECT_EQ(session, before);
  EXPECT_EQ(session.counters().stale_events, 2U);
}

TEST_F(ClientSessionTest, EachHandshakeStepHasADeadline) {
  add_path(0);
  pass(session.config().connect_timeout);
  EXPECT_EQ(session.path(0).reason(), Reason::connect_timeout);
  drain(0);
  pass(seconds(60));
  feed(accepted(key(0, 0)));
  feed(accepted(key(0, 1)));
  pass(session.config().info_timeout);
  EXPECT_EQ(session.path(0).reason(), Reason::info_timeout);
}

TEST_F(ClientSessionTest, BackOffDoublesUpToItsBoundAndJitters) {
  add_path(0);
  std::vector<Nanos> delays;
  // More attempts than an 8-bit counter can count.
  constexpr std::size_t kAttempts = 600;
  for (std::size_t attempt = 0; attempt < kAttempts; ++attempt) {
    feed(ConnectFailed{now, key(0, 0), Reason::connect_refused, 0});
    drain(0);
    for (const PathChanged& change : asked<PathChanged>())
      if (change.state == PathState::waiting) delays.push_back(change.delay);
    pass(seconds(60));
  }
  ASSERT_EQ(delays.size(), kAttempts);
  const ClientConfig& config = session.config();
  EXPECT_GE(delays[0], config.reconnect_min);
  EXPECT_LE(delays[0], 2 * config.reconnect_min);
  for (const Nanos delay : delays) EXPECT_LE(delay, config.reconnect_max + config.reconnect_jitter);
  for (std::size_t late = 11; late < kAttempts; ++late) EXPECT_GE(delays[late], config.reconnect_max) << late;
  EXPECT_NE(delays[10], delays[11]);
}

TEST_F(ClientSessionTest, JitterDependsOnTheSeed) {
  ClientConfig other = small_config();
  other.seed = 2;
  ClientSession twin(other);
  Jitter a(1), b(2);
  EXPECT_NE(a.up_to(seconds(8)), b.up_to(seconds(8)));
  EXPECT_FALSE(twin == session);
}

TEST_F(ClientSessionTest, BusyServerIsRetriedSoon) {
  add_path(0);
  feed(ConnectFailed{now, key(0, 0), Reason::rejected, wire::linux_errno::kEbusy});
  EXPECT_EQ(session.path(0).reason(), Reason::rejected_busy);
  drain(0);
  EXPECT_LE(session.next_deadline() - now, 2 * session.config().busy_retry);
}

TEST_F(ClientSessionTest, RejectionReasonReachesThePath) {  // tests requirement R09
  add_path(0);
  feed(ConnectFailed{now, key(0, 0), Reason::rejected, wire::linux_errno::kEexist});
  EXPECT_EQ(session.path(0).reason(), Reason::rejected);
  EXPECT_EQ(session.path(0).peer_errno(), wire::linux_errno::kEexist);
}

TEST_F(ClientSessionTest, ChangedDepthIsRetriedWithBackOff) {  // tests requirement R15
  open(1);
  lose(0);
  drain(0);
  pass(seconds(40));
  Nanos waited = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    feed(accepted(key(0, 0), 8));
    EXPECT_EQ(session.path(0).reason(), Reason::depth_changed);
    drain(0);
    ASSERT_EQ(session.path(0).state(), PathState::waiting);
    EXPECT_EQ(session.path(0).reason(), Reason::depth_changed);
    EXPECT_GT(session.next_deadline() - now, waited);
    waited = session.next_deadline() - now;
    pass(seconds(40));
  }
  bring_up(0);
  EXPECT_EQ(session.queue_depth(), 4U);
}

TEST_F(ClientSessionTest, AddedPathMustMatchTheDepthOfTheSession) {  // tests requirement L15
  open(1);
  add_path(1);
  feed(accepted(key(1, 0), 8));
  EXPECT_EQ(session.path(1).reason(), Reason::depth_changed);
}

TEST_F(ClientSessionTest, InfoRspBeforeInfoReqIsAViolation) {
  add_path(0);
  feed(accepted(key(0, 0)));
  feed(InfoAccepted{now, key(0, 0)});
  EXPECT_EQ(session.path(0).reason(), Reason::protocol_violation);
}

TEST_F(ClientSessionTest, HeartbeatPerSilentIntervalAndDeathWithinItsBounds) {
  open(1);
  const Nanos silent_since = now;
  unsigned messages = 0;
  while (session.path(0).connected()) {
    feed(DeadlineReached{session.next_deadline()});
    messages += static_cast<unsigned>(asked<PostImm>().size());
    ASSERT_LT(now - silent_since, seconds(60));
  }
  EXPECT_EQ(messages, 1U);
  EXPECT_EQ(session.path(0).reason(), Reason::heartbeat_lost);
  const HeartbeatConfig& config = session.config().heartbeat;
  EXPECT_GE(now - silent_since, (config.missed_max + 1) * config.interval);
  EXPECT_LE(now - silent_since, (config.missed_max + 2) * config.interval);
}

TEST_F(ClientSessionTest, SilentSinceIsSetOneIntervalAfterAnUnansweredHeartbeat) {
  open(1);
  pass(seconds(5));
  const Nanos sent = session.path(0).heartbeat_sent();
  EXPECT_EQ(session.path(0).silent_since(), kNever) << "the reply may still arrive";
  pass(seconds(5));
  EXPECT_EQ(session.path(0).silent_since(), sent);
  pass(seconds(5));
  EXPECT_EQ(session.path(0).silent_since(), sent);
  feed(ImmReceived{now, key(0, 0), wire::encode_hb(wire::ImmType::hb_ack)});
  EXPECT_EQ(session.path(0).silent_since(), kNever);
}

TEST_F(ClientSessionTest, AnyReceivedMessageProvesThePeerAlive) {  // tests requirement R29
  open(1);
  for (int i = 0; i < 40; ++i) {
    pass(seconds(5));
    ASSERT_TRUE(session.path(0).connected());
    submit();
    const PostRequest request = only<PostRequest>();
    if (request.cookie != 0) feed(SendDone{now, request.key, request.cookie});
    respond(request);
  }
}

TEST_F(ClientSessionTest, HeartbeatToleranceSurvivesReconnects) {  // tests requirement R28
  open(1);
  for (int round = 0; round < 3; ++round) {
    lose(0);
    drain(0);
    pass(seconds(40));
    bring_up(0);
    pass(seconds(6));  // one heartbeat is unanswered; its reply is late
    ASSERT_TRUE(session.path(0).connected());
    feed(ImmReceived{now, key(0, 0), wire::encode_hb(wire::ImmType::hb_ack)});
  }
}

TEST_F(ClientSessionTest, HeartbeatIsAnsweredAtOnceAndLatencyMeasured) {
  open(1);
  feed(ImmReceived{now, key(0, 0), wire::encode_hb(wire::ImmType::hb_msg)});
  EXPECT_EQ(only<PostImm>().imm, wire::encode_hb(wire::ImmType::hb_ack));
  pass(seconds(5));
  now += microseconds(70);
  feed(ImmReceived{now, key(0, 0), wire::encode_hb(wire::ImmType::hb_ack)});
  EXPECT_EQ(session.path(0).latency(), microseconds(70));
}

TEST_F(ClientSessionTest, RemovalIsFinalDespiteLaterRequests) {  // tests requirements R53 and R54
  open(2);
  feed(PathRemoveRequested{now, 1});
  feed(PathReconnectRequested{now, 1});
  feed(PathDisconnectRequested{now, 1});
  drain(1);
  EXPECT_EQ(session.path(1).state(), PathState::absent);
  pass(seconds(100));
  EXPECT_EQ(session.path(1).state(), PathState::absent);
}

TEST_F(ClientSessionTest, RemovalIsFinalAlsoWhileThePathDrains) {  // tests requirement R54
  open(2);
  lose(1);
  feed(PathRemoveRequested{now, 1});
  feed(PathReconnectRequested{now, 1});
  drain(1);
  EXPECT_EQ(session.path(1).state(), PathState::absent);
}

TEST_F(ClientSessionTest, ReconnectCountsAlsoWhileThePathCloses) {  // tests requirement R53
  open(2);
  feed(PathDisconnectRequested{now, 1});
  feed(PathReconnectRequested{now, 1});
  EXPECT_EQ(session.path(1).state(), PathState::closing);
  drain(1);
  bring_up(1);
}

TEST_F(ClientSessionTest, DisconnectedPathStaysUntilItIsReconnected) {
  open(2);
  feed(PathDisconnectRequested{now, 1});
  drain(1);
  EXPECT_EQ(session.path(1).state(), PathState::closed);
  feed(PathReconnectRequested{now, 1});
  bring_up(1);
}

TEST_F(ClientSessionTest, ReusedIndexNeverReusesAnEpoch) {
  open(2);
  feed(PathRemoveRequested{now, 1});
  drain(1);
  add_path(1);
  EXPECT_EQ(session.path(1).epoch(), 2U);
}

TEST_F(ClientSessionTest, PathAddedAfterTheLastRemovalCreatesTheSession) {  // tests requirement R11
  open(1);
  feed(PathRemoveRequested{now, 0});
  drain(0);
  add_path(1);
  EXPECT_TRUE(only<Connect>().first_conn);
}

TEST_F(ClientSessionTest, CloseEndsEveryPathAndThenTheSession) {
  open(2);
  feed(CloseRequested{now});
  EXPECT_EQ(asked<Disconnect>().size(), 4U);
  EXPECT_FALSE(session.ended());
  drain(0);
  drain(1);
  EXPECT_EQ(asked<EndSession>().size(), 1U);
  EXPECT_EQ(session.next_deadline(), kNever);
}

TEST_F(ClientSessionTest, CloseWaitsForRequestsForALimitedTime) {
  open(1);
  submit();
  feed(CloseRequested{now});
  EXPECT_TRUE(asked<Disconnect>().empty());
  pass(session.config().close_timeout);
  drain(0);
  EXPECT_TRUE(session.ended());
}

// Returns the number of failed attempts, at most 10, until the path stops reconnecting. `changed` is applied
// after the first failure.
unsigned attempts_of(ClientSession& session, const std::optional<std::int32_t>& changed = {}) {
  ClientActions out;
  Nanos now = seconds(1);
  session.on(PathAdded{now, 0}, out);
  unsigned attempts = 0;
  while (session.path(0).state() != PathState::closed && attempts < 10) {
    if (++attempts == 2 && changed) session.on(AttemptsChanged{now, *changed}, out);
    const ConKey key{0, 0, session.path(0).epoch()};
    out.clear();
    session.on(ConnectFailed{now, key, Reason::connect_refused, 0}, out);
    session.on(ConnectionClosed{now, key}, out);
    now += seconds(100);
    session.on(DeadlineReached{now}, out);
  }
  return attempts;
}

TEST(ClientSessionAttempts, StopAtTheConfiguredLimit) {
  ClientConfig config = small_config();
  config.max_reconnect_attempts = 3;
  ClientSession session(config);
  EXPECT_EQ(attempts_of(session), 3U);
  EXPECT_EQ(session.path(0).reason(), Reason::attempts_exhausted);
}

TEST(ClientSessionAttempts, LimitMayChangeBetweenAttempts) {
  ClientConfig config = small_config();
  ClientSession limited(config);
  EXPECT_EQ(attempts_of(limited, 4), 4U);
  EXPECT_EQ(limited.path(0).reason(), Reason::attempts_exhausted);
  config.max_reconnect_attempts = 3;
  ClientSession unlimited(config);
  EXPECT_EQ(attempts_of(unlimited, -1), 10U);
}

// Clients that lose their server at the same moment do not all reconnect at the same moment.
TEST(ClientSessionAttempts, L09SpreadOverTheWholeJitter) {
  Nanos earliest = kNever;
  Nanos latest = 0;
  ClientConfig config = small_config();
  for (config.seed = 1; config.seed <= 200; ++config.seed) {
    ClientSession session(config);
    ClientActions out;
    const Nanos now = seconds(1);
    session.on(PathAdded{now, 0}, out);
    const ConKey key{0, 0, session.path(0).epoch()};
    out.clear();
    session.on(ConnectFailed{now, key, Reason::connect_refused, 0}, out);
    session.on(ConnectionClosed{now, key}, out);
    earliest = std::min(earliest, session.next_deadline() - now);
    latest = std::max(latest, session.next_deadline() - now);
  }
  const Nanos range = std::min(config.reconnect_min, config.reconnect_jitter);
  EXPECT_GE(latest - earliest, range * 9 / 10);
  EXPECT_LE(latest - earliest, range);
}

}  // namespace
}  // namespace rtrs::client_session_test
