// Oracle O20: histories that it must reject or accept.
#include "sim/oracles/client_promises.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <vector>

#include "conformance/sim/test_judge.hpp"
#include "sim/oracles/fence_watch.hpp"

namespace rtrs::sim::client_promises_test {

using conformance::fails_with;

namespace {

ClientConfig short_timeouts() {
  ClientConfig config;
  config.queue_timeout = seconds(10);
  config.request_timeout = seconds(5);
  return config;
}
PathEvent path_event(PathState state, Reason reason, Nanos at, Nanos delay = 0) {
  PathEvent event;
  event.at = at;
  event.path = PathChanged{0, state, reason, 0, 0, delay};
  return event;
}
PathEvent link(PathEvent::Kind kind, Nanos at) {
  PathEvent event;
  event.kind = kind;
  event.at = at;
  return event;
}
PathEvent link_down(Nanos at) {
  return link(PathEvent::Kind::link_down, at);
}
PathEvent link_up(Nanos at) {
  return link(PathEvent::Kind::link_up, at);
}

}  // namespace

TEST(ClientPromises, EarlyNoPathIsFound) {
  Judge judge;
  ClientPromises promises(judge, short_timeouts(), true);
  promises.note(link_down(seconds(100)));
  promises.poll_begins({});
  promises.completed(1, Errc::no_path, seconds(50), seconds(110));
  EXPECT_FALSE(judge.failed());
  promises.completed(2, Errc::no_path, seconds(50), seconds(110) - 1);
  EXPECT_TRUE(fails_with(judge, Oracle::promises));
}

// If a request was split, one message may have failed in the long outage and another may have completed after
// a path was connected again.
TEST(ClientPromises, NoPathAfterAnOutageIsFoundUnlessTheRequestWasSplit) {
  for (const bool whole_requests : {true, false}) {
    Judge judge;
    ClientPromises promises(judge, short_timeouts(), whole_requests);
    promises.note(link_down(seconds(100)));
    promises.note(link_up(seconds(110)));
    promises.poll_begins({});
    promises.note(link_down(seconds(111)));
    promises.note(link_up(seconds(112)));
    promises.poll_begins({});
    promises.completed(1, Errc::no_path, seconds(50), seconds(113));
    EXPECT_EQ(judge.failed(), whole_requests);
  }
}

TEST(ClientPromises, NoPathOfASplitRequestNeedsAnOutageOfQueueTimeout) {
  for (const Nanos submitted : {seconds(50), seconds(102)}) {
    Judge judge;
    ClientPromises promises(judge, short_timeouts(), false);
    promises.note(link_down(seconds(100)));
    promises.note(link_up(submitted == seconds(50) ? seconds(110) - 1 : seconds(111)));
    promises.poll_begins({});
    promises.note(link_down(seconds(112)));
    promises.poll_begins({});
    promises.completed(1, Errc::no_path, submitted, seconds(113));
    EXPECT_TRUE(fails_with(judge, Oracle::promises)) << submitted;
  }
}

TEST(ClientPromises, QueueTimeoutCountsFromTheSubmissionToo) {
  Judge judge;
  ClientPromises promises(judge, short_timeouts(), true);
  promises.note(link_down(seconds(100)));
  promises.poll_begins({});
  promises.completed(1, Errc::no_path, seconds(105), seconds(112));
  EXPECT_TRUE(fails_with(judge, Oracle::promises));
}

TEST(ClientPromises, PathLostByRequestTimeoutWithoutAFailedRequestIsFound) {
  Judge judge;
  ClientPromises promises(judge, short_timeouts(), true);
  for (const bool fails : {true, false}) {
    EXPECT_FALSE(judge.failed());
    promises.poll_begins({});
    promises.note(path_event(PathState::draining, Reason::request_timeout, 1));
    promises.note(path_event(PathState::waiting, Reason::request_timeout, 2));
    if (fails) promises.completed(1, Errc::request_timeout, 0, 2);
    promises.poll_ends(0, true, 2);
  }
  EXPECT_TRUE(fails_with(judge, Oracle::promises));
}

TEST(ClientPromises, UnansweredRequestAfterRequestTimeoutIsFound) {
  Judge judge;
  ClientPromises promises(judge, short_timeouts(), true);
  promises.note(path_event(PathState::draining, Reason::heartbeat_lost, seconds(100)));
  promises.check_oldest(seconds(100), seconds(200));  // the request may have been resent
  promises.check_oldest(seconds(101), seconds(106) - 1);
  EXPECT_FALSE(judge.failed());
  promises.check_oldest(seconds(101), seconds(106));
  EXPECT_TRUE(fails_with(judge, Oracle::promises));
}

TEST(ClientPromises, TimeoutDespiteUnreadEventsIsFound) {
  Judge judge;
  ClientPromises promises(judge, short_timeouts(), true);
  for (const std::size_t taken : {5U, 4U}) {
    EXPECT_FALSE(judge.failed());
    promises.poll_begins({5, kNever, 0});
    promises.note(path_event(PathState::draining, Reason::info_timeout, 1));
    promises.poll_ends(taken, true, 1);
  }
  EXPECT_TRUE(fails_with(judge, Oracle::promises));
}

TEST(ClientPromises, UnrequestedCloseOfAPathIsFound) {
  Judge judge;
  ClientPromises promises(judge, short_timeouts(), true);
  promises.asked_to_end(0, 5);
  promises.note(path_event(PathState::connecting, Reason::none, 5));
  promises.note(path_event(PathState::closed, Reason::requested, 6));
  EXPECT_FALSE(judge.failed());
  promises.note(path_event(PathState::connecting, Reason::none, 7));
  promises.note(path_event(PathState::closed, Reason::depth_changed, 8));
  EXPECT_TRUE(fails_with(judge, Oracle::promises));
}

TEST(ClientPromises, ExcessiveReconnectDelayIsFound) {
  Judge judge;
  const ClientConfig config = short_timeouts();
  ClientPromises promises(judge, config, true);
  const Nanos longest = config.reconnect_max + config.reconnect_jitter;
  promises.note(path_event(PathState::waiting, Reason::connect_refused, 0, longest));
  EXPECT_FALSE(judge.failed());
  promises.note(path_event(PathState::waiting, Reason::connect_refused, 0, longest + 1));
  EXPECT_TRUE(fails_with(judge, Oracle::promises));
}

TEST(ClientPromises, ConnectionSilentDespiteDeliveriesIsFound) {
  Judge judge;
  ClientPromises promises(judge, short_timeouts(), true);
  promises.poll_begins({0, kNever, 2});
  promises.note(path_event(PathState::draining, Reason::connection_silent, 0));
  EXPECT_FALSE(judge.failed());
  promises.poll_begins({0, kNever, 1});
  promises.note(path_event(PathState::draining, Reason::connection_silent, 0));
  EXPECT_TRUE(fails_with(judge, Oracle::promises));
}

namespace {

PathStatus status(PathState state, Nanos retry_at = 0, bool held_back = false) {
  PathStatus one;
  one.state = state;
  one.since = seconds(100);
  one.retry_at = retry_at;
  one.held_back = held_back;
  return one;
}

// True if the oracle rejects this history of one recover command.
bool refused(std::vector<PathStatus> before, std::vector<PathStatus> after, unsigned tried) {
  Judge judge;
  ClientPromises promises(judge, short_timeouts(), true);
  promises.recovered(before, after, tried, seconds(101));
  return fails_with(judge, Oracle::promises);
}

}  // namespace

TEST(ClientPromises, PathNotReconnectedByARecoverIsFound) {
  const PathStatus waits = status(PathState::waiting, seconds(102)), closed = status(PathState::closed),
                   connecting = status(PathState::connecting), connected = status(PathState::connected);
  EXPECT_FALSE(refused({waits, connected}, {connecting, connected}, 1));
  EXPECT_FALSE(refused({closed, connecting}, {connecting, connecting}, 1));
  EXPECT_FALSE(refused({waits}, {status(PathState::waiting, seconds(102), true)}, 1)) << "held back";
  EXPECT_TRUE(refused({waits, waits}, {connecting, waits}, 2));
  EXPECT_TRUE(refused({closed}, {closed}, 1));
  EXPECT_TRUE(refused({waits}, {connecting}, 0)) << "the count is too small";
  EXPECT_TRUE(refused({waits, connected}, {connecting, connected}, 2)) << "the count is too large";
  const PathStatus draining = status(PathState::draining);
  for (const unsigned tried : {0U, 1U})
    EXPECT_FALSE(refused({draining}, {draining}, tried)) << "the ending path may be removed";
}

TEST(ClientPromises, PathRecoveredWhileDrainingReconnectsAtOnce) {
  for (const Nanos delay : {Nanos{0}, seconds(1)}) {
    Judge judge;
    ClientPromises promises(judge, short_timeouts(), true);
    const std::vector<PathStatus> ends{status(PathState::draining)};
    promises.recovered(ends, ends, 1, seconds(101));
    promises.note(path_event(PathState::waiting, Reason::heartbeat_lost, seconds(102), delay));
    EXPECT_EQ(fails_with(judge, Oracle::promises), delay != 0);
  }
  Judge judge;
  ClientPromises promises(judge, short_timeouts(), true);
  const std::vector<PathStatus> ends{status(PathState::draining)};
  promises.recovered(ends, ends, 1, seconds(101));
  promises.note(path_event(PathState::connecting, Reason::none, seconds(102)));
  promises.note(path_event(PathState::draining, Reason::connect_refused, seconds(102)));
  promises.note(path_event(PathState::waiting, Reason::connect_refused, seconds(103), seconds(1)));
  EXPECT_FALSE(judge.failed()) << "the next attempt has failed too";
}

TEST(ClientPromises, StatusShowsTheNextAttemptOnlyForAWaitingPath) {
  const auto is_refused = [](const PathStatus& one, Nanos now) {
    Judge judge;
    ClientPromises promises(judge, short_timeouts(), true);
    promises.check_attempts(std::span(&one, 1), now);
    return fails_with(judge, Oracle::promises);
  };
  EXPECT_FALSE(is_refused(status(PathState::waiting, seconds(102)), seconds(102) - 1));
  EXPECT_TRUE(is_refused(status(PathState::waiting, seconds(102)), seconds(102)));
  EXPECT_TRUE(is_refused(status(PathState::waiting, 0), seconds(101)));
  EXPECT_TRUE(is_refused(status(PathState::waiting, seconds(500)), seconds(101))) << "longer than any delay";
  EXPECT_FALSE(is_refused(status(PathState::waiting, kNever, true), seconds(101)));
  EXPECT_FALSE(is_refused(status(PathState::connected), seconds(101)));
  EXPECT_TRUE(is_refused(status(PathState::connected, seconds(102)), seconds(101)));
}

TEST(FenceWatch, FenceMayBeResentOnlyAfterItsTimeout) {
  const auto fails = [](std::initializer_list<std::pair<std::uint16_t, Nanos>> questions,
                        bool path_dies = false) {
    Judge judge;
    FenceWatch watch(judge, "client 1", seconds(60));
    for (const auto& [recon_cnt, at] : questions) {
      std::array<std::byte, wire::kFenceBytes> bytes{};
      EXPECT_NE(encode(wire::FenceReq{recon_cnt, 7, {}}, bytes), 0U);
      WorkRequest work;
      work.op = WorkRequest::Op::send;
      work.inline_bytes = bytes;
      watch.posted(work, at);
      if (path_dies) watch.ended(work.key);
    }
    return fails_with(judge, Oracle::promises);
  };
  EXPECT_FALSE(fails({{1, 0}, {1, seconds(60)}, {1, seconds(120)}, {1, seconds(180)}}));
  // The fabric may accept the first fence only when the second one is posted.
  EXPECT_FALSE(fails({{1, seconds(59)}, {1, seconds(60)}, {1, seconds(120)}}));
  EXPECT_TRUE(fails({{1, 0}, {1, 1}, {1, 2}}));
  EXPECT_FALSE(fails({{1, 0}, {2, 1}, {3, 2}})) << "each attempt has its own fence";
  EXPECT_FALSE(fails({{1, 0}, {1, 1}, {1, 2}}, true)) << "over other connections";
}

}  // namespace rtrs::sim::client_promises_test
