// Tests a path to a host name with several addresses: each address is tried in turn, and a dead address costs
// little time.
#include "core/proto/test_client_session.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::client_addresses_test {
namespace {

class ClientAddressesTest : public ClientSessionFixture {
 protected:
  using ClientSessionFixture::ClientSessionFixture;
  void find(std::uint16_t count, std::uint16_t path = 0) { feed(AddressesFound{now, key(path, 0), count}); }
  void fail(Reason reason, std::uint16_t peer_errno = 0, std::uint16_t con = 0) {
    feed(ConnectFailed{now, key(0, con), reason, peer_errno});
    drain(0);
  }
  // Returns the address of the attempt that started in this step.
  unsigned address() {
    EXPECT_EQ(only<Connect>().key.con, 0);
    return session.path(0).address();
  }
};

TEST_F(ClientAddressesTest, RefusedAddressIsFollowedByTheNextAtOnce) {
  add_path(0);
  EXPECT_EQ(address(), 0U);
  find(3);
  fail(Reason::connect_refused);
  EXPECT_EQ(address(), 1U);
  find(3);
  fail(Reason::address_unresolved);
  EXPECT_EQ(address(), 2U);
  EXPECT_EQ(session.path(0).attempts(), 1U);
  find(3);
  bring_up(0);
  EXPECT_EQ(session.path(0).address(), 2U);
}

TEST_F(ClientAddressesTest, DelayFollowsTheLastAddress) {
  add_path(0);
  for (int round = 1; round < 4; ++round) {
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(session.path(0).state(), PathState::connecting);
      find(2);
      fail(Reason::connect_refused);
    }
    ASSERT_EQ(session.path(0).state(), PathState::waiting);
    EXPECT_EQ(session.path(0).attempts(), static_cast<std::uint32_t>(round));
    EXPECT_GE(session.next_deadline() - now, session.config().reconnect_min);
    pass(seconds(40));
    EXPECT_EQ(address(), 0U);
  }
}

TEST_F(ClientAddressesTest, SilentAddressTimesOutEarly) {
  add_path(0);
  find(2);
  EXPECT_EQ(session.next_deadline(), now + kAddressTimeout);
  pass(Nanos{kAddressTimeout});
  EXPECT_EQ(session.path(0).reason(), Reason::connect_timeout);
  drain(0);
  EXPECT_EQ(address(), 1U);
}

// A server that answers too slowly for the first time limit must be reached with a later, longer limit.
TEST_F(ClientAddressesTest, AddressTimeoutDoublesWithEachRound) {
  add_path(0);
  for (const Nanos time : {seconds(2), seconds(4), seconds(8), seconds(16), seconds(30), seconds(30)}) {
    for (int i = 0; i < 2; ++i) {
      find(2);
      ASSERT_EQ(session.next_deadline(), now + time);
      pass(time);
      drain(0);
    }
    pass(seconds(40));
  }
}

TEST_F(ClientAddressesTest, SingleAddressUsesConnectTimeout) {
  add_path(0);
  find(1);
  EXPECT_EQ(session.next_deadline(), now + session.config().connect_timeout);
  fail(Reason::connect_refused);
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
}

TEST_F(ClientAddressesTest, OnlyTheFirstConnectionHasTheShortTimeout) {
  add_path(0);
  find(2);
  feed(accepted(key(0, 0)));
  EXPECT_EQ(session.next_deadline(), now + session.config().connect_timeout);
  feed(AddressesFound{now, key(0, 1), 2});
  EXPECT_EQ(session.next_deadline(), now + session.config().connect_timeout);
}

// The first address drops large packets, so the path must connect at the other address.
TEST_F(ClientAddressesTest, InfoTimeoutSelectsTheNextAddress) {
  add_path(0);
  find(2);
  feed(accepted(key(0, 0)));
  feed(accepted(key(0, 1)));
  pass(session.config().info_timeout);
  EXPECT_EQ(session.path(0).reason(), Reason::info_timeout);
  drain(0);
  EXPECT_EQ(address(), 1U);
}

// Another address of the name may lead to another server, which does not know the holder of the session name.
TEST_F(ClientAddressesTest, NameRefusalSelectsTheNextAddress) {
  add_path(0);
  find(2);
  feed(accepted(key(0, 0)));
  feed(accepted(key(0, 1)));
  feed(ConnectionLost{now, key(0, 0), Reason::name_refused});
  drain(0);
  EXPECT_EQ(address(), 1U);
}

TEST_F(ClientAddressesTest, ReconnectStartsWithTheLastGoodAddress) {
  add_path(0);
  find(2);
  fail(Reason::connect_refused);
  find(2);
  bring_up(0);
  lose(0);
  drain(0);
  pass(seconds(40));
  EXPECT_EQ(address(), 1U);
  find(2);
  fail(Reason::connect_timeout);
  EXPECT_EQ(address(), 0U);
  EXPECT_TRUE(only<Connect>().first_conn);
  find(2);
  bring_up(0);
}

TEST_F(ClientAddressesTest, BusyServerIsRetriedAtTheSameAddress) {
  add_path(0);
  find(2);
  fail(Reason::rejected, wire::linux_errno::kEbusy);
  ASSERT_EQ(session.path(0).state(), PathState::waiting);
  pass(seconds(40));
  EXPECT_EQ(address(), 0U);
}

// The other address failed before the server was busy. The other address may work again, so the client must
// try it.
TEST_F(ClientAddressesTest, BusyServerStartsANewRoundOfAddresses) {
  add_path(0);
  find(2);
  fail(Reason::connect_refused);
  find(2);
  fail(Reason::rejected, wire::linux_errno::kEbusy);
  pass(seconds(40));
  EXPECT_EQ(address(), 1U);
  find(2);
  fail(Reason::connect_refused);
  EXPECT_EQ(address(), 0U);
  find(2);
  fail(Reason::connect_refused);
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
}

TEST_F(ClientAddressesTest, LostSessionStartsANewRoundOfAddresses) {
  open(1);
  add_path(1);
  find(2, 1);
  lose(0);
  feed(ConnectFailed{now, key(1, 0), Reason::connect_refused, 0});
  drain(1);
  find(2, 1);
  feed(ConnectFailed{now, key(1, 0), Reason::rejected, wire::linux_errno::kEnxio});
  drain(1);
  ASSERT_EQ(session.path(1).state(), PathState::waiting);
  pass(seconds(40));
  ASSERT_EQ(session.path(1).state(), PathState::connecting);
  find(2, 1);
  feed(ConnectFailed{now, key(1, 0), Reason::connect_refused, 0});
  drain(1);
  EXPECT_EQ(session.path(1).state(), PathState::connecting);
  EXPECT_EQ(session.path(1).address(), 0U);
}

TEST_F(ClientAddressesTest, ChallengeIsAnsweredAtTheSameAddress) {
  add_path(0);
  find(2);
  fail(Reason::challenged, wire::linux_errno::kEacces);
  EXPECT_EQ(address(), 0U);
}

// The server is alive, so an attempt at another of its addresses would fail too.
TEST_F(ClientAddressesTest, RejectionIsFollowedByTheDelay) {
  add_path(0);
  find(2);
  fail(Reason::rejected, wire::linux_errno::kEnomem);
  ASSERT_EQ(session.path(0).state(), PathState::waiting);
  pass(seconds(40));
  EXPECT_EQ(address(), 1U);
}

// The next attempt creates the session at the server that lost it.
TEST_F(ClientAddressesTest, ServerThatLostTheSessionIsRetriedAtTheSameAddress) {
  open(1);
  add_path(1);
  find(2, 1);
  ASSERT_TRUE(session.path(1).joins());
  lose(0);
  feed(ConnectFailed{now, key(1, 0), Reason::rejected, wire::linux_errno::kEnxio});
  EXPECT_EQ(session.path(1).address(), 0U);
}

TEST_F(ClientAddressesTest, ServerWithoutTheLivingSessionIsLeft) {
  open(1);
  add_path(1);
  find(2, 1);
  feed(ConnectFailed{now, key(1, 0), Reason::rejected, wire::linux_errno::kEnxio});
  drain(1);
  EXPECT_EQ(session.path(1).state(), PathState::waiting);
  EXPECT_EQ(session.path(1).address(), 1U);
}

TEST_F(ClientAddressesTest, LocalShortageTriesNoOtherAddress) {
  add_path(0);
  find(2);
  fail(Reason::no_resources);
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
}

TEST_F(ClientAddressesTest, NameReducedToOneAddressGetsOneAttemptPerRound) {
  add_path(0);
  find(2);
  fail(Reason::connect_refused);
  fail(Reason::connect_refused);
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
  pass(seconds(40));
  fail(Reason::connect_refused);
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
}

TEST_F(ClientAddressesTest, AttemptLimitCountsRounds) {
  feed(AttemptsChanged{now, 1});
  add_path(0);
  find(2);
  fail(Reason::connect_refused);
  EXPECT_EQ(address(), 1U);
  find(2);
  fail(Reason::connect_refused);
  EXPECT_EQ(session.path(0).state(), PathState::closed);
}

TEST_F(ClientAddressesTest, DisconnectedPathTriesNoOtherAddress) {
  add_path(0);
  find(2);
  feed(PathDisconnectRequested{now, 0});
  drain(0);
  EXPECT_EQ(session.path(0).state(), PathState::closed);
}

TEST_F(ClientAddressesTest, EventsOfAnOldAttemptAreIgnored) {
  add_path(0);
  const ConKey old = key(0, 0);
  fail(Reason::connect_refused);
  pass(seconds(40));
  feed(AddressesFound{now, old, 5});
  fail(Reason::connect_refused);
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
}

TEST_F(ClientAddressesTest, SingleAddressLeavesTheStateUnchanged) {
  ClientSession other(session.config());
  add_path(0);
  ClientActions out;
  other.on(PathAdded{now, 0}, out);
  find(2);
  EXPECT_NE(session.fingerprint(), other.fingerprint());
  other = ClientSession(session.config());
  session = other;
  ClientActions again;
  other.on(PathAdded{now, 0}, again);
  add_path(0);
  find(1);
  EXPECT_EQ(session.fingerprint(), other.fingerprint());
}

}  // namespace
}  // namespace rtrs::client_addresses_test
