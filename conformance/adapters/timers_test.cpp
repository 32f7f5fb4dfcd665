// Checks that the verbs backend uses only the time that is passed to poll().
#include <poll.h>

#include "backends/verbs/verbs_fabric.hpp"
#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::timers_test {
namespace {

class Timers : public TwoEnds {
 protected:
  // True if the descriptor becomes readable within 10 s, which is enough on a busy machine.
  static bool wakes(const End& end) {
    pollfd one{.fd = end.fabric->wait_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, 10'000) == 1;
  }
  // Time at which poll() has work even if no descriptor is readable.
  static Nanos due(const End& end) { return static_cast<const verbs::FabricImpl&>(*end.fabric).next_timer(); }
};

TEST_F(Timers, UnansweredDisconnectTimesOutByTheTimeOfPoll) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  ASSERT_TRUE(carries());
  client.fabric->disconnect(kNear);
  for (unsigned i = 0; i < 80; ++i) poll(client);  // the server does not answer
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects, 0U);
  now += milliseconds(9'999);
  poll(client);
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects, 0U);
  now += milliseconds(1);
  poll(client);
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects, 1U);
}

TEST_F(Timers, AnswerPendingAtTheDeadlineCounts) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  client.fabric->disconnect(kNear);
  poll(client);
  for (unsigned i = 0; i < 80; ++i) poll(server);
  now += seconds(20);
  poll(client);
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects, 0U);
}

// Another thread posts while the polling thread sleeps. The post itself must reach the device.
TEST_F(Timers, PostToASleepingFabricReachesTheDevice) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  ASSERT_TRUE(carries());
  ASSERT_TRUE(until([&] { return client.fabric->try_wait(); }));
  WorkRequest work;
  work.key = kNear;
  work.op = WorkRequest::Op::write_imm;
  work.imm = 77;
  ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
  for (unsigned i = 0; i < 80; ++i) poll(server);
  SeenEvent event;
  ASSERT_TRUE(server.side->take(SeenEvent::Kind::imm_received, kFar, event));
  EXPECT_EQ(event.imm, 77U);
  // New receives must reach the device at once too, because the peer may answer.
  const std::uint64_t before = mock_hca::counts(0).receives;
  client.fabric->post_receive(kNear, 1, 64);
  EXPECT_EQ(mock_hca::counts(0).receives, before + 1);
}

// The rule must hold even after the fabric has slept.
TEST_F(Timers, PostsBetweenTwoPollsRingOneDoorbell) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  ASSERT_TRUE(carries());
  ASSERT_TRUE(until([&] { return client.fabric->try_wait(); }));
  poll(client);
  const std::uint64_t before = mock_hca::counts(0).doorbells;
  WorkRequest work;
  work.key = kNear;
  work.op = WorkRequest::Op::write_imm;
  for (unsigned i = 0; i < 3; ++i) ASSERT_EQ(client.fabric->post(std::span(&work, 1)), 1U);
  poll(client);
  EXPECT_EQ(mock_hca::counts(0).doorbells, before + 1);
}

// If the timer descriptor becomes readable too early, that is before the program's clock (the argument of
// poll()) reaches the deadline, it becomes readable once again at the deadline.
TEST_F(Timers, EarlyWakeupIsRepeated) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  connect_both_ends("192.0.2.1", kNearAgain, kFarAgain);
  client.fabric->disconnect(kNear);
  poll(client);
  now += milliseconds(9'999);
  poll(client);
  client.fabric->disconnect(kNearAgain);  // sets the timer again, for the earlier deadline
  for (unsigned i = 0; i < 3; ++i) {
    for (unsigned polls = 0; polls < 80 && !client.fabric->try_wait(); ++polls) poll(client);
    EXPECT_TRUE(wakes(client)) << i;
    poll(client);
  }
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects, 0U);
  now += milliseconds(9'999);
  poll(client);
  EXPECT_EQ(client.fabric->stats().unconfirmed_disconnects, 1U);
  for (unsigned polls = 0; polls < 80 && !client.fabric->try_wait(); ++polls) poll(client);
  EXPECT_TRUE(wakes(client)) << "the timer of the other connection";
}

TEST_F(Timers, EarliestDeadlineIsDueFirst) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  connect_both_ends("192.0.2.1", kNearAgain, kFarAgain);
  EXPECT_EQ(due(client), kNever);
  const Nanos start = now;
  client.fabric->disconnect(kNear);
  now += seconds(4);
  poll(client);
  client.fabric->disconnect(kNearAgain);
  EXPECT_EQ(due(client), start + seconds(10));
  now = start + seconds(10);
  poll(client);
  EXPECT_EQ(due(client), start + seconds(14));
  poll_both();
  EXPECT_EQ(due(client), kNever) << "the disconnect was answered";
}

TEST_F(Timers, ResumedListenerHasNoDeadline) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  mock_hca::set_port(0, false);
  poll_both();
  EXPECT_NE(due(server), kNever);
  mock_hca::take_out(0);
  take(server, SeenEvent::Kind::connection_lost, kFar);
  leave();
  EXPECT_EQ(due(server), now + seconds(1)) << "retry of the listener";
  EXPECT_EQ(due(client), kNever);
  mock_hca::put_back(0);
  now += seconds(1);
  poll_both();
  EXPECT_EQ(due(server), kNever);
}

// The first port in the list has no connections. The check must continue with the other ports.
TEST_F(Timers, DownPortEndsAllOfItsConnections) {
  mock_hca::Profile second = mock_hca::mlx5();
  second.name = "mlx5_1";
  open({mock_hca::mlx5(), second});
  ASSERT_EQ(server.fabric->listen({.source = {}, .destination = {}, .port = 0}), Errc::ok);
  connect_both_ends("192.0.2.1");
  leave();
  connect_both_ends("192.0.2.2");
  connect_both_ends("192.0.2.2", kNearAgain, kFarAgain);
  mock_hca::set_port(0, false);
  mock_hca::set_port(1, false);
  poll_both();
  now += seconds(4);
  poll_both();
  for (const ConKey near : {kNear, kNearAgain})
    EXPECT_EQ(client.count(SeenEvent::Kind::connection_lost, near), 1U);
  for (const ConKey far : {kFar, kFarAgain})
    EXPECT_EQ(server.count(SeenEvent::Kind::connection_lost, far), 1U);
}

TEST_F(Timers, UnusedDownPortEndsNoConnection) {
  open({mock_hca::mlx5()});
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1");
  mock_hca::set_port(0, false, 2);
  poll_both();
  EXPECT_TRUE(client.logged("port 2 is down"));
  now += seconds(60);
  poll_both();
  EXPECT_TRUE(carries());
}

// While the polling thread sleeps, another thread posts more receives than the queue allows, or disconnects.
TEST_F(Timers, SleepingPollerIsWokenByCallsOfOtherThreads) {
  for (const bool leaves : {false, true}) {
    open({mock_hca::mlx5()});
    listen("192.0.2.1");
    connect_both_ends("192.0.2.1");
    ASSERT_TRUE(carries());
    ASSERT_TRUE(until([&] { return client.fabric->try_wait(); }));
    leaves ? client.fabric->disconnect(kNear) : client.fabric->post_receive(kNear, 64, 0);
    EXPECT_TRUE(wakes(client));
    poll(client);
    EXPECT_EQ(client.count(SeenEvent::Kind::connection_lost, kNear), leaves ? 0U : 1U);
    EXPECT_EQ(client.count(SeenEvent::Kind::connection_closed, kNear), leaves ? 1U : 0U);
    close();
  }
}

}  // namespace
}  // namespace rtrs::conformance::timers_test
