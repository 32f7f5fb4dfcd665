// Tests the life cycle of the paths of a server session.
#include "core/proto/server_session.hpp"

#include <string>

#include "core/proto/server_invariants.hpp"
#include "core/proto/test_server_session.hpp"

namespace rtrs::server_session_test {
namespace {

using namespace wire::linux_errno;

TEST_F(ServerSessionTest, AcceptsEveryConnectionAndPostsTheReceiveOfTheInfoRequest) {
  feed(request(1, 0));
  EXPECT_EQ(only<Accept>().flags, wire::kConnRspFence | wire::kConnRspGeneration);
  const auto receive = only<PostReceive>();
  EXPECT_EQ(receive.count, 1);
  EXPECT_EQ(receive.kind, ReceiveKind::message);
  feed(request(1, 1));
  EXPECT_EQ(only<Accept>().flags, wire::kConnRspFence | wire::kConnRspGeneration);
  EXPECT_TRUE(none<PostReceive>());
}

TEST_F(ServerSessionTest, GrantsOnlyWhatIsOfferedAndConfigured) {
  config.extensions = wire::Extensions::generation | wire::Extensions{0x80};
  config.always_invalidate = true;
  remake();
  extensions = wire::Extensions{0xff};
  const ConKey key = connect(1, 0);
  EXPECT_EQ(only<Accept>().flags, wire::kConnRspNewRkey | wire::kConnRspGeneration);
  EXPECT_EQ(session->granted(key), wire::Extensions::generation);
  extensions = wire::Extensions::none;
  connect(2, 0);
  EXPECT_EQ(only<Accept>().flags, wire::kConnRspNewRkey);
}

TEST_F(ServerSessionTest, InfoRequestConnectsThePathAndOnlyInfoRspIsSent) {
  const Keys keys = bring_up(1);
  EXPECT_EQ(state(keys.service), PathState::connected);
  EXPECT_TRUE(only<LinkChanged>().up);
  EXPECT_TRUE(none<PostImm>());
  std::vector<PostReceive> receives = all<PostReceive>();
  ASSERT_EQ(receives.size(), 2U);
  EXPECT_EQ(receives[0].kind, ReceiveKind::message);
  EXPECT_EQ(receives[0].count, 64 + config.queue_depth);
  EXPECT_EQ(receives[1].kind, ReceiveKind::empty);
  EXPECT_EQ(receives[1].count, config.queue_depth);
  EXPECT_EQ(session->next_deadline(), now + config.heartbeat.interval);
  bring_up(2);
  EXPECT_TRUE(none<LinkChanged>()) << "only the first path changes the link";
}

TEST_F(ServerSessionTest, NoEmptyReceivesIfImmediatesConsumeNone) {
  config.imm_consumes_receive = false;
  remake();
  bring_up(1);
  EXPECT_EQ(only<PostReceive>().kind, ReceiveKind::message);
}

TEST_F(ServerSessionTest, R01HalfOpenPathIsReapedByATimerOfItsOwn) {
  const ConKey service = connect(1, 0);
  const Nanos due = now + config.handshake_timeout;
  now += seconds(20);
  const ConKey io = connect(1, 1);
  EXPECT_EQ(session->next_deadline(), due) << "a further connection does not restart it";
  now = due - 1;
  feed(DeadlineReached{});
  EXPECT_TRUE(actions.empty());
  now = due;
  feed(DeadlineReached{});
  expect_closing(service, Reason::handshake_timeout);
  EXPECT_EQ(all<Disconnect>().size(), 2U);
  close_connections({service, io});
  EXPECT_EQ(only<EndSession>().reason, Reason::handshake_timeout);
}

TEST_F(ServerSessionTest, InfiniteTimeoutsAreNeverDue) {
  config.handshake_timeout = config.heartbeat.interval = kNever;
  remake();
  connect(1, 0);
  EXPECT_EQ(session->next_deadline(), kNever);
  EXPECT_EQ(broken_invariant(*session), nullptr);
  bring_up(2);
  EXPECT_EQ(session->next_deadline(), kNever);
  EXPECT_EQ(broken_invariant(*session), nullptr);
}

TEST_F(ServerSessionTest, R01HalfOpenPathIsReplacedByANewerAttempt) {
  const ConKey old = connect(1, 0, 7);
  expect_rejected(request(1, 0, 8), Reason::rejected_busy, kEbusy);
  EXPECT_EQ(only<Disconnect>().key, old);
  expect_rejected(request(1, 0, 9), Reason::rejected_busy, kEbusy);
  EXPECT_TRUE(none<Disconnect>()) << "no second close";
  feed(ConnectionClosed{0, old});
  EXPECT_EQ(only<EndSession>().reason, Reason::superseded);
}

TEST_F(ServerSessionTest, L27ConnectedPathIsReplacedByANewerAttempt) {
  bring_up(1, 0xffff);
  const Keys other = bring_up(2);
  const ConnectRequested next = request(1, 0, 0);  // the attempt counter has wrapped to 0
  expect_rejected(next, Reason::rejected_busy, kEbusy);
  expect_closing(next.key, Reason::superseded);
  EXPECT_EQ(state(other.service), PathState::connected);
}

TEST_F(ServerSessionTest, L14StaleAttemptIsRejectedWithoutEffect) {
  const ConKey connecting = connect(1, 0, 8);
  expect_rejected(request(1, 1, 7), Reason::stale_attempt, kEconnreset);
  EXPECT_EQ(actions.size(), 1U);
  EXPECT_EQ(state(connecting), PathState::connecting);
  const Keys up = bring_up(2, 2);
  expect_rejected(request(2, 0, 1), Reason::stale_attempt, kEconnreset);
  EXPECT_EQ(actions.size(), 1U);
  EXPECT_EQ(state(up.service), PathState::connected);
}

TEST_F(ServerSessionTest, L14DuplicateConnectionIsRejectedWithoutEffect) {
  const ConKey key = connect(1, 0);
  expect_rejected(request(1, 0), Reason::duplicate_connection, kEconnreset);
  EXPECT_EQ(state(key), PathState::connecting);
  connect(1, 1);
  feed(InfoRequested{0, key, 0});
  EXPECT_EQ(state(key), PathState::connected);
  expect_rejected(request(1, 1), Reason::duplicate_connection, kEconnreset);
  EXPECT_EQ(state(key), PathState::connected);
}

TEST_F(ServerSessionTest, ConnectionsOfOnePathMustAgreeOnCountAndExtensions) {
  connect(1, 0);
  ConnectRequested more = request(1, 1);
  more.cid_num = 3;
  expect_rejected(more, Reason::protocol_violation, kEconnreset);
  extensions = wire::Extensions::none;
  expect_rejected(request(1, 1), Reason::protocol_violation, kEconnreset);
}

TEST_F(ServerSessionTest, ClosingPathAnswersBusy) {
  const Keys keys = bring_up(1);
  feed(ConnectionLost{0, keys.io, Reason::peer_closed});
  expect_rejected(request(1, 0, 2), Reason::rejected_busy, kEbusy);
  ConnectRequested same_addresses = request(2, 0);
  same_addresses.address_pair = 1;
  expect_rejected(same_addresses, Reason::rejected_busy, kEbusy);
  close_connections(keys);
  EXPECT_TRUE(session->ended());
}

TEST_F(ServerSessionTest, SecondPathBetweenTheSameAddressesIsRejected) {
  const Keys keys = bring_up(1);
  ConnectRequested twin = request(2, 0);
  twin.address_pair = 1;
  expect_rejected(twin, Reason::duplicate_address, kEexist);
  EXPECT_EQ(state(keys.service), PathState::connected);
}

TEST_F(ServerSessionTest, TooManyPathsOrConnectionsAreRefused) {
  for (std::uint8_t i = 0; i < kMaxPaths; ++i) connect(static_cast<std::uint8_t>(i + 1), 0);
  expect_rejected(request(kMaxPaths + 1, 0), Reason::too_many_paths, kEconnreset);
  remake();
  ConnectRequested wide = request(1, 0);
  wide.cid_num = kMaxCons + 1;
  expect_rejected(wide, Reason::too_many_connections, kEconnreset);
  EXPECT_EQ(only<EndSession>().reason, Reason::too_many_connections) << "nothing is left behind";
}

TEST_F(ServerSessionTest, RejectLeavesTheStateUnchanged) {
  bring_up(1);
  const ServerSession before = *session;
  const auto fingerprint = session->fingerprint();
  ConnectRequested twin = request(2, 0);
  twin.address_pair = 1;
  feed(twin);
  feed(request(1, 0));
  feed(request(1, 0, 0));
  EXPECT_EQ(*session, before);
  EXPECT_EQ(session->fingerprint(), fingerprint);
}

TEST_F(ServerSessionTest, R02InfoWithMissingConnectionClosesPath) {
  const ConKey service = connect(1, 0);
  feed(InfoRequested{0, service, 0});
  expect_closing(service, Reason::protocol_violation);
  EXPECT_TRUE(none<PostReceive>() && none<SendInfoRsp>() && none<LinkChanged>());
}

TEST_F(ServerSessionTest, R02InfoAfterALostConnectionIsIgnored) {
  const ConKey service = connect(1, 0);
  const ConKey io = connect(1, 1);
  feed(ConnectionLost{0, io, Reason::transport_error});
  feed(InfoRequested{0, service, 0});
  EXPECT_TRUE(actions.empty());
}

TEST_F(ServerSessionTest, R02InfoOnlyOnceAndOnlyOnTheServiceConnection) {
  const Keys keys = bring_up(1);
  feed(InfoRequested{0, keys.service, 0});
  expect_closing(keys.service, Reason::protocol_violation);
  const ConKey service = connect(2, 0);
  const ConKey io = connect(2, 1);
  feed(InfoRequested{0, io, 0});
  expect_closing(service, Reason::protocol_violation);
}

TEST_F(ServerSessionTest, R03L11RefusedNameNeverRaisesTheLink) {
  const ConKey service = connect(1, 0);
  const ConKey io = connect(1, 1);
  feed(InfoRequested{0, service, kEperm});
  expect_closing(service, Reason::name_refused);
  EXPECT_TRUE(none<LinkChanged>() && none<SendInfoRsp>());
  EXPECT_EQ(session->next_deadline(), kNever);
  close_connections({service, io});
  EXPECT_TRUE(none<LinkChanged>());
  EXPECT_EQ(only<EndSession>().reason, Reason::name_refused);
  remake();
  bring_up(1, 2);
  EXPECT_TRUE(only<LinkChanged>().up);
}

TEST_F(ServerSessionTest, LinkGoesDownWithTheLastConnectedPath) {
  const Keys one = bring_up(1);
  const Keys two = bring_up(2);
  feed(ConnectionLost{0, one.io, Reason::peer_closed});
  EXPECT_TRUE(none<LinkChanged>());
  feed(ConnectionLost{0, two.io, Reason::peer_closed});
  EXPECT_FALSE(only<LinkChanged>().up);
}

TEST_F(ServerSessionTest, PathIsReleasedAfterEveryConnectionClosed) {
  const Keys keys = bring_up(1);
  bring_up(2);
  feed(ConnectionLost{0, keys.io, Reason::peer_closed});
  EXPECT_EQ(all<Disconnect>().size(), 2U);
  feed(ConnectionLost{0, keys.service, Reason::peer_closed});
  EXPECT_TRUE(actions.empty()) << "the path is being closed already";
  feed(ConnectionClosed{0, keys.io});
  EXPECT_TRUE(actions.empty());
  feed(ConnectionClosed{0, keys.service});
  EXPECT_EQ(only<ReleasePath>().path, keys.io.path);
  EXPECT_EQ(only<PathChanged>().state, PathState::absent);
  EXPECT_TRUE(none<EndSession>());
  const Keys again = bring_up(1, 2);
  EXPECT_EQ(again.io.path, keys.io.path);
}

TEST_F(ServerSessionTest, EventsOfOlderKeysAreCountedAndIgnored) {
  const Keys old = bring_up(1);
  bring_up(2);
  feed(ConnectionLost{0, old.io, Reason::peer_closed});
  close_connections(old);
  const Keys fresh = bring_up(1, 2);
  const ServerSession before = *session;
  feed(ConnectionLost{0, old.io, Reason::peer_closed});
  feed(ConnectionClosed{0, old.io});
  feed(SendDone{0, old.io, 4});
  feed(ImmReceived{0, old.io, 0xffffffff});
  feed(PeerBroke{0, old.io, wire::Refusal::bad_type});
  feed(RequestArrived(write(old.io, 0)));
  feed(InfoRequested{0, old.service, 0});
  feed(FenceRequested{0, old.service, 1, 1, uuid(2)});
  feed(ChunkInvalidated{0, old.io, 0, false});
  EXPECT_EQ(*session, before);
  EXPECT_EQ(session->counters().stale_events, 9U);
  EXPECT_EQ(state(fresh.io), PathState::connected);
}

TEST_F(ServerSessionTest, OperatorClosesOnePath) {
  const Keys one = bring_up(1);
  const Keys two = bring_up(2);
  feed(PathDisconnectRequested{0, one.io.path});
  expect_closing(one.io, Reason::requested);
  EXPECT_EQ(state(two.io), PathState::connected);
  feed(PathDisconnectRequested{0, kMaxPaths});
  EXPECT_TRUE(actions.empty());
}

TEST_F(ServerSessionTest, CloseEndsOnePathPerStep) {
  const Keys one = bring_up(1);
  const Keys two = bring_up(2);
  feed(CloseRequested{});
  EXPECT_TRUE(session->wants_to_continue());
  feed(Continued{});
  EXPECT_EQ(all<Disconnect>().size(), 2U);
  feed(Continued{});
  EXPECT_EQ(all<Disconnect>().size(), 2U);
  EXPECT_FALSE(session->wants_to_continue());
  expect_rejected(request(3, 0), Reason::rejected_busy, kEbusy);
  close_connections(one);
  EXPECT_TRUE(none<EndSession>());
  close_connections(two);
  EXPECT_EQ(only<EndSession>().reason, Reason::session_closed);
}

TEST_F(ServerSessionTest, CloseOfAnEmptySessionEndsAtOnce) {
  feed(CloseRequested{});
  EXPECT_EQ(only<EndSession>().reason, Reason::session_closed);
}

TEST_F(ServerSessionTest, HeartbeatIsAnsweredOnTheServiceConnection) {
  const Keys keys = bring_up(1);
  feed(ImmReceived{0, keys.io, wire::encode_hb(wire::ImmType::hb_msg)});
  const auto ack = only<PostImm>();
  EXPECT_EQ(ack.key, keys.service);
  EXPECT_EQ(ack.imm, wire::encode_hb(wire::ImmType::hb_ack));
  EXPECT_EQ(only<PostReceive>().key, keys.io);
  feed(ImmReceived{0, keys.service, wire::encode_hb(wire::ImmType::hb_ack)});
  EXPECT_TRUE(none<PostImm>());
  EXPECT_EQ(only<PostReceive>().kind, ReceiveKind::message);
}

TEST_F(ServerSessionTest, SilentPeerIsDead) {
  const Keys keys = bring_up(1);
  const Nanos last = now;
  unsigned sent = 0;
  while (state(keys.service) == PathState::connected && now < last + seconds(100)) {
    now = session->next_deadline();
    feed(DeadlineReached{});
    sent += static_cast<unsigned>(all<PostImm>().size());
  }
  expect_closing(keys.service, Reason::heartbeat_lost);
  EXPECT_EQ(sent, 1U);
  EXPECT_EQ(now - last, (config.heartbeat.missed_max + 2) * config.heartbeat.interval);
}

TEST_F(ServerSessionTest, AnyReceivedMessageProvesThePeerAlive) {
  const Keys keys = bring_up(1);
  const auto beat = [&](auto received) {
    for (unsigned i = 0; i < config.heartbeat.missed_max; ++i) {
      now = session->next_deadline();
      feed(DeadlineReached{});
    }
    feed(received);
    now = session->next_deadline();
    feed(DeadlineReached{});
    EXPECT_EQ(all<PostImm>().size(), 1U) << "counting starts again";
  };
  beat(ImmReceived{0, keys.service, wire::encode_hb(wire::ImmType::hb_ack)});
  beat(FenceRequested{0, keys.service, 1, 1, uuid(9)});
  beat(write(keys.io, 0));
  EXPECT_EQ(state(keys.service), PathState::connected);
}

TEST_F(ServerSessionTest, UnknownImmediatesAreViolations) {
  for (const std::uint32_t type : {1U, 2U, 3U, 7U, 10U, 15U}) {
    remake();
    const Keys keys = bring_up(1);
    feed(ImmReceived{0, keys.io, type << 28});
    expect_closing(keys.io, Reason::protocol_violation);
  }
}

TEST_F(ServerSessionTest, NothingMayArriveBeforeTheInfoRequest) {
  const ConKey service = connect(1, 0);
  feed(ImmReceived{0, service, wire::encode_hb(wire::ImmType::hb_msg)});
  expect_closing(service, Reason::protocol_violation);
  const ConKey other = connect(2, 0);
  feed(write(other, 0));
  expect_closing(other, Reason::protocol_violation);
  EXPECT_TRUE(none<Deliver>());
}

TEST_F(ServerSessionTest, MessageThatDoesNotParseClosesItsPath) {
  const Keys keys = bring_up(1);
  feed(PeerBroke{0, keys.io, wire::Refusal::bad_user_length});
  expect_closing(keys.io, Reason::protocol_violation);
}

TEST_F(ServerSessionTest, ImpossibleCompletionClosesItsPath) {
  const Keys keys = bring_up(1);
  feed(SendDone{0, keys.io, 1});
  expect_closing(keys.io, Reason::transport_error);
}

}  // namespace
}  // namespace rtrs::server_session_test
