// Tests each oracle with a short history that breaks its rule, and with the corrected history.
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>

#include "conformance/sim/test_judge.hpp"
#include "sim/oracles/data_integrity.hpp"
#include "sim/oracles/exactly_once.hpp"
#include "sim/oracles/heartbeat_watch.hpp"
#include "sim/oracles/incarnation.hpp"
#include "sim/oracles/key_hygiene.hpp"
#include "sim/oracles/ledger.hpp"
#include "sim/oracles/link_watch.hpp"
#include "sim/oracles/slot_exclusivity.hpp"

namespace rtrs::sim::oracles_test {

using conformance::fails_with;

TEST(ExactlyOnce, OneCallbackWithTheResultOfTheServerIsAccepted) {
  Judge judge;
  ExactlyOnce once(judge);
  once.accepted(1, 0);
  once.accepted(2, 0);
  once.served(1, 0);
  once.served(2, 512);
  once.completed(1, Errc::ok, 0, 1);
  once.completed(2, Errc::peer_error, 5, 1);
  EXPECT_FALSE(judge.failed());
  EXPECT_EQ(once.open(), 0U);
}

TEST(ExactlyOnce, SecondCallbackIsFound) {
  Judge judge;
  ExactlyOnce once(judge);
  once.accepted(1, 0);
  once.served(1, 0);
  once.completed(1, Errc::ok, 0, 1);
  once.completed(1, Errc::ok, 0, 2);
  EXPECT_TRUE(fails_with(judge, Oracle::exactly_once));
}

TEST(ExactlyOnce, CallbackAfterTheEndOfTheClientIsFound) {
  Judge judge;
  ExactlyOnce once(judge);
  once.accepted(1, 0);
  once.abandoned(1);
  once.completed(1, Errc::session_closed, 0, 2);
  EXPECT_TRUE(fails_with(judge, Oracle::exactly_once));
}

TEST(ExactlyOnce, SuccessWithoutAResultOfTheServerIsFound) {
  Judge judge;
  ExactlyOnce once(judge);
  once.accepted(1, 0);
  once.served(1, 30);
  once.completed(1, Errc::ok, 0, 1);
  EXPECT_TRUE(fails_with(judge, Oracle::exactly_once));
}

TEST(ExactlyOnce, ErrnoThatTheServerNeverSentIsFound) {
  Judge judge;
  ExactlyOnce once(judge);
  once.accepted(1, 0);
  once.served(1, 512);
  once.completed(1, Errc::peer_error, 0, 1);
  EXPECT_TRUE(fails_with(judge, Oracle::exactly_once));
}

TEST(SlotExclusivity, TwoUsersOfOneChunkAreFound) {
  Judge judge;
  SlotExclusivity slots(judge);
  std::array<std::byte, 128> chunk{};
  slots.begin(chunk, 1, 0);
  slots.begin(std::span(chunk).first(64), 2, 1);
  EXPECT_TRUE(fails_with(judge, Oracle::slot_exclusivity));
}

TEST(SlotExclusivity, SuccessiveUsersOfAChunkAreAccepted) {
  Judge judge;
  SlotExclusivity slots(judge);
  std::array<std::byte, 128> chunk{};
  slots.begin(chunk, 1, 0);
  slots.check(chunk, 1, 0);
  slots.end(chunk);
  chunk[5] = std::byte{1};
  slots.begin(chunk, 2, 1);
  slots.check(chunk, 2, 1);
  EXPECT_FALSE(judge.failed());
}

TEST(SlotExclusivity, ChunkThatChangesDuringItsUseIsFound) {
  Judge judge;
  SlotExclusivity slots(judge);
  std::array<std::byte, 128> chunk{};
  slots.begin(chunk, 1, 0);
  chunk[127] = std::byte{1};
  slots.check(chunk, 1, 1);
  EXPECT_TRUE(fails_with(judge, Oracle::slot_exclusivity));
}

TEST(DataIntegrity, WholeSectorIdentifiesItsWriter) {
  std::array<std::byte, kSectorBytes> sector{};
  EXPECT_EQ(writer_of(sector, 7, 1), 0U);
  write_sector(SectorTag{42, 1, 7, 3, 1}, sector);
  EXPECT_EQ(writer_of(sector, 7, 1), 42U);
  EXPECT_EQ(writer_of(sector, 8, 1), std::nullopt);
  EXPECT_EQ(writer_of(sector, 7, 2), std::nullopt);
  for (std::byte& byte : sector) {
    byte ^= std::byte{0x10};
    EXPECT_EQ(writer_of(sector, 7, 1), std::nullopt);
    byte ^= std::byte{0x10};
  }
}

TEST(DataIntegrity, DataOfAnotherRequestIsFound) {
  Judge judge;
  DataIntegrity integrity(judge, 1);
  std::array<std::byte, kSectorBytes> sector{};
  write_sector(SectorTag{42, 0, 7, 0, 1}, sector);
  integrity.to_storage(sector, 7, 42, 0);
  EXPECT_FALSE(judge.failed());
  integrity.to_storage(sector, 7, 43, 0);
  EXPECT_TRUE(fails_with(judge, Oracle::data_integrity));
}

TEST(DataIntegrity, MemoryThatChangesAfterTheCompletionIsFound) {
  Judge judge;
  DataIntegrity integrity(judge, 1);
  integrity.private_memory(1, 2, 9, 0);
  EXPECT_TRUE(fails_with(judge, Oracle::data_integrity));
}

class HeartbeatWatchTest : public ::testing::Test {
 protected:
  Judge judge;
  HeartbeatWatch watch{judge, HeartbeatConfig{100, 5}};
};

TEST_F(HeartbeatWatchTest, EarlyHeartbeatLossIsFound) {
  watch.connected(0, 0);
  watch.received(0, 1000);
  watch.lost(0, Reason::heartbeat_lost, false, 1499);
  EXPECT_TRUE(fails_with(judge, Oracle::heartbeat));
}

TEST_F(HeartbeatWatchTest, HeartbeatLossAfterSilenceAndOtherLossesAreAccepted) {
  watch.connected(0, 0);
  watch.connected(1, 0);
  watch.check(700);
  watch.lost(0, Reason::heartbeat_lost, false, 700);
  watch.lost(1, Reason::peer_closed, true, 10);
  watch.check(10'000);
  EXPECT_FALSE(judge.failed());
}

TEST_F(HeartbeatWatchTest, TimeoutDespiteAnUnreadMessageIsFound) {
  watch.lost(3, Reason::handshake_timeout, false, 10);
  EXPECT_FALSE(judge.failed());
  watch.lost(3, Reason::handshake_timeout, true, 10);
  EXPECT_TRUE(fails_with(judge, Oracle::heartbeat));
}

TEST_F(HeartbeatWatchTest, UndetectedSilenceIsFound) {
  watch.connected(0, 0);
  watch.check(701);
  EXPECT_TRUE(fails_with(judge, Oracle::heartbeat));
}

TEST_F(HeartbeatWatchTest, TimeCountsFromTheEndOfAPause) {
  watch.connected(0, 0);
  watch.resumed(5000);
  watch.check(5700);
  EXPECT_FALSE(judge.failed());
  watch.check(5701);
  EXPECT_TRUE(judge.failed());
}

TEST(LinkWatch, EventsThatDoNotAlternateAreFound) {
  Judge judge;
  LinkWatch links(judge);
  links.link(false, 0);
  EXPECT_TRUE(fails_with(judge, Oracle::links));
}

TEST(LinkWatch, DownWhileAPathIsConnectedIsFound) {
  Judge judge;
  LinkWatch links(judge);
  links.path_connected();
  links.path_connected();
  links.link(true, 0);
  links.check(0);
  EXPECT_FALSE(judge.failed());
  links.path_lost();
  links.link(false, 1);
  links.check(1);
  EXPECT_TRUE(fails_with(judge, Oracle::links));
}

TEST(Ledger, LeakAndDoubleReleaseAreFound) {
  Judge judge;
  check_holdings(judge, 0, "client", Holdings{3, 2, 1}, Holdings{3, 2, 1});
  check_balance(judge, 0, "permits", 0, 0);
  EXPECT_FALSE(judge.failed());
  check_holdings(judge, 0, "client", Holdings{0, 0, -1}, Holdings{});
  EXPECT_TRUE(fails_with(judge, Oracle::ledger));
}

TEST(Incarnation, ConnectionsOfTwoAttemptsAreFound) {
  Judge judge;
  std::array<PeerEnd, 2> ends{PeerEnd{true, 1, ConKey{0, 0, 5}, 0}, PeerEnd{true, 1, ConKey{0, 1, 5}, 1}};
  check_incarnation(judge, 0, "server path", ends, true);
  EXPECT_FALSE(judge.failed());
  ends[1].key.epoch = 4;
  check_incarnation(judge, 0, "server path", ends, true);
  EXPECT_TRUE(fails_with(judge, Oracle::incarnation));
  EXPECT_EQ(judge.failure().text,
            "server path: its connections belong to different attempts: connection 0 leads to connection 0 "
            "of path 0 of "
            "client 1, attempt 5, and connection 1 leads to connection 1 of path 0 of client 1, attempt 4");
}

TEST(KeyHygiene, RefusedKeyIsFound) {
  Judge judge;
  KeyHygiene keys(judge);
  keys.refused(0, 0);
  EXPECT_FALSE(judge.failed());
  keys.refused(1, 0);
  EXPECT_TRUE(fails_with(judge, Oracle::keys));
}

TEST(KeyHygiene, KeyThatOutlivesItsReadIsFound) {
  Judge judge;
  KeyHygiene keys(judge);
  keys.offered(1, 2, 2, 0);
  EXPECT_FALSE(judge.failed());
  keys.offered(1, 2, 1, 0);
  EXPECT_TRUE(fails_with(judge, Oracle::keys));
}

TEST(ExactlyOnce, ResultsOfAMisbehavingPeerAreNotChecked) {
  Judge judge;
  ExactlyOnce once(judge);
  once.accepted(1, 0);
  once.completed(1, Errc::peer_error, 80, 1, false);
  EXPECT_FALSE(judge.failed());
  once.completed(1, Errc::ok, 0, 2, false);
  EXPECT_TRUE(fails_with(judge, Oracle::exactly_once));
}

TEST(Transitions, PathReusedWithoutDrainingIsFound) {
  Judge judge;
  const std::unique_ptr<ClientOracle> oracle = make_transitions(judge);
  oracle->started();
  const auto becomes = [&](PathState state) {
    PathChanged change{};
    change.state = state;
    oracle->path(change, false, 0);
  };
  for (const PathState state : {PathState::connecting, PathState::connected, PathState::draining,
                                PathState::waiting, PathState::connecting, PathState::connected})
    becomes(state);
  EXPECT_FALSE(judge.failed());
  becomes(PathState::waiting);
  EXPECT_TRUE(fails_with(judge, Oracle::transitions));
}

TEST(Judge, NamesEveryMarkOnce) {
  std::set<std::string> names;
  for (unsigned mark = 0; mark < kMarks; ++mark) {
    EXPECT_TRUE(names.insert(name_of(static_cast<Mark>(mark))).second) << mark;
    EXPECT_STRNE(text_of(static_cast<Mark>(mark)), "");
  }
  EXPECT_GE(kMarks, 60u);
}

TEST(Judge, KeepsTheFirstFailureAndNamesEveryRule) {
  Judge judge;
  judge.fail(Oracle::ledger, 5, "first");
  judge.fail(Oracle::history, 6, "second");
  EXPECT_EQ(judge.failure().text, "first");
  for (unsigned oracle = 0; oracle < kOracles; ++oracle) {
    EXPECT_STRNE(id_of(static_cast<Oracle>(oracle)), "");
    EXPECT_STRNE(rule_of(static_cast<Oracle>(oracle)), "");
  }
}

}  // namespace rtrs::sim::oracles_test
