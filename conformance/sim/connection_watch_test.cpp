// Oracle O24, and the rules of O20 about connecting and closing: histories that the oracles must reject or
// accept.
#include "sim/oracles/connection_watch.hpp"

#include <gtest/gtest.h>

#include "conformance/sim/test_judge.hpp"
#include "sim/oracles/close_watch.hpp"

namespace rtrs::sim::connection_watch_test {

using conformance::fails_with;

namespace {

constexpr ConnectionWatch::Limits kLimits{seconds(6), seconds(2), 2};
constexpr Nanos kLater = milliseconds(2);  // longer than the rounding error that the oracle allows

ConKey con(std::uint16_t number, std::uint32_t epoch = 1) {
  return {0, number, epoch};
}

struct History {
  Judge judge;
  ConnectionWatch watch{judge, "client 1", kLimits};

  // A path requests its first connection at time 0; its connections are established at 1 s and 2 s.
  void connects() {
    watch.asked(con(0));
    watch.poll_ends(0);
    watch.up(con(0), seconds(1));
    watch.asked(con(1));
    watch.poll_ends(seconds(1));
    watch.up(con(1), seconds(2));
    watch.poll_ends(seconds(2));
  }
  // `since`: the time at which the path started to wait, as its node reports.
  void begins(Nanos now, Nanos since = seconds(10)) { watch.poll_begins(now, std::span(&since, 1)); }
  void loses(Reason news, Nanos now) {
    watch.ended(con(0));
    watch.ended(con(1));
    watch.news(0, PathState::draining, news, 0, now);
    watch.poll_ends(now);
  }
};

}  // namespace

TEST(ConnectionWatch, PathThatConnectsInTimeAndIsLostIsAccepted) {
  History one;
  one.connects();
  one.begins(seconds(4));
  one.watch.news(0, PathState::connected, Reason::none, 0, seconds(4));
  one.begins(seconds(100));
  one.watch.lost(con(1), Reason::peer_closed);
  one.loses(Reason::peer_closed, seconds(100));
  one.watch.news(0, PathState::waiting, Reason::peer_closed, seconds(3), seconds(100));
  one.begins(seconds(103), seconds(100));
  one.watch.asked(con(0, 2));
  one.watch.news(0, PathState::connecting, Reason::none, 0, seconds(103));
  one.watch.poll_ends(seconds(103));
  one.begins(seconds(109));
  EXPECT_FALSE(one.judge.failed()) << one.judge.failure().text;
}

TEST(ConnectionWatch, ExceededConnectTimeoutIsFound) {
  for (const bool second : {false, true}) {
    History one;
    one.watch.asked(con(0));
    one.watch.poll_ends(0);
    if (second) one.watch.up(con(0), seconds(1));
    if (second) one.watch.asked(con(1));
    one.watch.poll_ends(seconds(1));
    const Nanos since = second ? seconds(1) : 0;
    one.begins(since + kLimits.connect);
    EXPECT_FALSE(one.judge.failed());
    one.begins(since + kLimits.connect + kLater);
    EXPECT_TRUE(fails_with(one.judge, Oracle::promises));
  }
}

TEST(ConnectionWatch, MissingRequestForTheNextConnectionIsFound) {
  History one;
  one.watch.asked(con(0));
  one.watch.up(con(0), seconds(1));
  one.watch.poll_ends(seconds(1));
  one.begins(seconds(1) + kLimits.connect + kLater);
  EXPECT_TRUE(fails_with(one.judge, Oracle::promises));
}

TEST(ConnectionWatch, ExceededInfoTimeoutIsFound) {
  History one;
  one.connects();
  one.begins(seconds(2) + kLimits.info);
  EXPECT_FALSE(one.judge.failed());
  one.begins(seconds(2) + kLimits.info + kLater);
  EXPECT_TRUE(fails_with(one.judge, Oracle::promises));
}

TEST(ConnectionWatch, PathThatIsNotRetriedIsFound) {
  History one;
  one.watch.news(0, PathState::waiting, Reason::peer_closed, seconds(3), seconds(10));
  one.begins(seconds(13));
  EXPECT_FALSE(one.judge.failed());
  one.begins(seconds(13) + kLater);
  EXPECT_TRUE(fails_with(one.judge, Oracle::promises));
}

// An operator has ended or restarted the path, and the event has not been polled yet.
TEST(ConnectionWatch, PathThatNoLongerWaitsNeedsNoRetry) {
  History one;
  one.watch.news(0, PathState::waiting, Reason::peer_closed, seconds(3), seconds(10));
  one.begins(seconds(14), kNever);
  one.begins(seconds(14), seconds(12));
  EXPECT_FALSE(one.judge.failed());
}

// Makes one attempt on one of two addresses, which is refused at `now`.
void fails(History& one, std::uint32_t epoch, std::uint16_t address, Nanos now,
           Reason reason = Reason::connect_refused) {
  one.watch.asked(con(0, epoch), address);
  one.watch.found(con(0, epoch), 2, now);
  one.watch.lost(con(0, epoch), reason);
  one.watch.ended(con(0, epoch));
  one.watch.news(0, PathState::draining, reason, 0, now);
  one.watch.poll_ends(now);
}

TEST(ConnectionWatch, RoundThroughAllAddressesIsAccepted) {
  History one;
  fails(one, 1, 0, seconds(1));
  fails(one, 2, 1, seconds(2));
  one.watch.news(0, PathState::waiting, Reason::connect_refused, seconds(3), seconds(2));
  fails(one, 3, 0, seconds(5));
  EXPECT_FALSE(one.judge.failed()) << one.judge.failure().text;
}

TEST(ConnectionWatch, RetryOfTheFailedAddressIsFound) {
  History one;
  fails(one, 1, 0, seconds(1));
  one.watch.asked(con(0, 2), 2);
  EXPECT_TRUE(fails_with(one.judge, Oracle::addresses));
}

TEST(ConnectionWatch, WaitBeforeAllAddressesWereTriedIsFound) {
  History one;
  fails(one, 1, 0, seconds(1));
  one.watch.news(0, PathState::waiting, Reason::connect_refused, seconds(3), seconds(1));
  EXPECT_TRUE(fails_with(one.judge, Oracle::addresses));
}

// The server is reachable but refused, so the client may wait before the next attempt.
TEST(ConnectionWatch, WaitAfterARefusalByTheServerIsAccepted) {
  History one;
  fails(one, 1, 0, seconds(1), Reason::rejected);
  one.watch.news(0, PathState::waiting, Reason::rejected, seconds(3), seconds(1));
  one.watch.asked(con(0, 2), 0);
  EXPECT_FALSE(one.judge.failed()) << one.judge.failure().text;
}

TEST(ConnectionWatch, ExceededAddressTimeoutIsFound) {
  for (const unsigned rounds : {0U, 1U}) {
    History one;
    if (rounds == 1) one.watch.news(0, PathState::waiting, Reason::connect_refused, 1, 0);
    one.watch.asked(con(0));
    one.watch.found(con(0), 2, seconds(1));
    one.watch.poll_ends(seconds(1));
    const Nanos limit = Nanos{kAddressTimeout} << rounds;
    one.begins(seconds(1) + limit);
    EXPECT_FALSE(one.judge.failed());
    one.begins(seconds(1) + limit + kLater);
    EXPECT_TRUE(fails_with(one.judge, Oracle::addresses));
  }
}

TEST(ConnectionWatch, LossWithoutADisconnectIsFound) {
  History one;
  one.connects();
  one.watch.lost(con(1), Reason::transport_error);
  one.watch.poll_ends(seconds(3));
  EXPECT_TRUE(fails_with(one.judge, Oracle::losses));
}

TEST(ConnectionWatch, LossOfAnEndedConnectionIsAccepted) {
  History one;
  one.connects();
  one.loses(Reason::heartbeat_lost, seconds(3));
  one.watch.lost(con(1), Reason::peer_closed);
  one.watch.poll_ends(seconds(4));
  EXPECT_FALSE(one.judge.failed());
}

TEST(ConnectionWatch, PathEventThatBlamesTheFabricWithoutCauseIsFound) {
  for (const Reason said : {Reason::rejected, Reason::rejected_busy, Reason::connect_refused}) {
    History one;
    one.connects();
    one.watch.lost(con(1), Reason::rejected);
    one.loses(said, seconds(3));
    EXPECT_EQ(one.judge.failed(), said == Reason::connect_refused);
  }
}

TEST(ConnectionWatch, NameRefusedNeedsADisconnect) {
  for (const Reason fabric : {Reason::peer_closed, Reason::transport_error}) {
    History one;
    one.connects();
    one.watch.lost(con(1), fabric);
    one.loses(Reason::name_refused, seconds(3));
    EXPECT_EQ(one.judge.failed(), fabric != Reason::peer_closed);
  }
}

// The server itself closed the path because a newer attempt replaced it.
TEST(ConnectionWatch, RejectedBusyOfAServerNeedsNoReport) {
  Judge judge;
  ConnectionWatch watch(judge, "server", {});
  watch.accepted(con(0));
  watch.ended(con(0));
  watch.news(0, PathState::closing, Reason::rejected_busy, 0, seconds(1));
  watch.poll_ends(seconds(1));
  EXPECT_FALSE(judge.failed());
}

// The loss was reported in the previous poll and belongs to the previous incarnation.
TEST(ConnectionWatch, LossOfAnOlderIncarnationExplainsNothing) {
  History one;
  one.connects();
  one.watch.lost(con(1), Reason::peer_closed);
  one.loses(Reason::peer_closed, seconds(3));
  one.watch.accepted(con(0, 2));
  one.watch.news(0, PathState::closing, Reason::peer_closed, 0, seconds(4));
  EXPECT_TRUE(fails_with(one.judge, Oracle::losses));
}

TEST(CloseWatch, LateCloseIsFound) {
  for (const bool ended : {false, true}) {
    Judge judge;
    CloseWatch watch(judge, "client 1", seconds(10), seconds(3), seconds(2));
    const Nanos bound = seconds(ended ? 15 : 13);
    watch.check(ended, bound);
    EXPECT_FALSE(judge.failed());
    watch.check(ended, bound + kLater);
    EXPECT_TRUE(fails_with(judge, Oracle::promises));
  }
}

TEST(CloseWatch, BoundCountsFromTheEndOfAPause) {
  Judge judge;
  CloseWatch watch(judge, "client 1", seconds(10), seconds(3), seconds(2));
  watch.paused(seconds(20));
  watch.check(false, seconds(23));
  EXPECT_FALSE(judge.failed());
  watch.check(false, seconds(23) + kLater);
  EXPECT_TRUE(fails_with(judge, Oracle::promises));
}

}  // namespace rtrs::sim::connection_watch_test
