// Tests requests while no path is connected, and the effect of a failed request on later ones.
#include <gtest/gtest.h>

#include "core/proto/test_client_session.hpp"

namespace rtrs::client_outage_test {
namespace {

class ClientOutageTest : public ClientSessionFixture {
 protected:
  // Sends a request over a path that is then lost and drained. Returns the path.
  std::uint16_t send_and_lose_path(Direction direction = Direction::write) {
    submit(direction);
    const std::uint16_t path = only<PostRequest>().key.path;
    lose(path);
    drain(path);
    return path;
  }
  // Loses path `other` and advances time until the requests that wait for a path fail.
  void fail_waiting_after_losing(std::uint16_t other) {
    lose(other);
    drain(other);
    wait_for_failures(1);
  }
  void wait_for_failures(std::size_t wanted) {
    std::size_t failed = 0;
    while (failed < wanted) {
      ASSERT_NE(session.next_deadline(), kNever);
      feed(DeadlineReached{session.next_deadline()});
      for (const Complete& done : asked<Complete>()) {
        EXPECT_EQ(done.result, Errc::no_path);
        ++failed;
      }
      refuse_attempts();
    }
  }
  void refuse_attempts() {
    for (std::uint16_t path = 0; path < 2; ++path) {
      if (session.path(path).state() != PathState::connecting) continue;
      feed(ConnectFailed{now, key(path, 0), Reason::connect_refused, 0});
      drain(path);
    }
  }
  void come_back(std::uint16_t path) {
    feed(PathReconnectRequested{now, path});
    bring_up(path);
  }
};

TEST_F(ClientOutageTest, L01NothingIsSentBeforeTheFenceOfAFailedWriteIsAnswered) {
  open(2);
  const std::uint16_t stranded = send_and_lose_path();
  const auto other = static_cast<std::uint16_t>(1 - stranded);
  fail_waiting_after_losing(other);
  come_back(other);
  const SendFenceReq fence = only<SendFenceReq>();
  EXPECT_EQ(fence.path, stranded);
  const std::uint16_t later = submit();
  EXPECT_TRUE(asked<PostRequest>().empty());
  feed(FenceAnswered{now, fence.key, fence.serial, 0});
  EXPECT_EQ(only<PostRequest>().permit, later);
  EXPECT_TRUE(asked<Complete>().empty());
  EXPECT_EQ(session.permits_used(), 1U);
}

TEST_F(ClientOutageTest, L01ReconnectOfTheLostPathReleasesLaterRequests) {
  open(2);
  const std::uint16_t stranded = send_and_lose_path();
  fail_waiting_after_losing(static_cast<std::uint16_t>(1 - stranded));
  const std::uint16_t later = submit();
  come_back(stranded);
  EXPECT_EQ(only<PostRequest>().permit, later);
}

TEST_F(ClientOutageTest, RequestsWaitingForAPathAlsoWaitForTheFence) {
  open(2);
  const std::uint16_t stranded = send_and_lose_path();
  const auto other = static_cast<std::uint16_t>(1 - stranded);
  fail_waiting_after_losing(other);
  submit();
  come_back(other);
  EXPECT_TRUE(asked<PostRequest>().empty());
  const SendFenceReq fence = only<SendFenceReq>();
  feed(FenceAnswered{now, fence.key, fence.serial, 0});
  EXPECT_EQ(asked<PostRequest>().size(), 1U);
}

// Runs each test with a failed read and a failed write, in both orders.
class MixedOutageTest : public ClientOutageTest, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(ReadFirst, MixedOutageTest, ::testing::Bool());

TEST_P(MixedOutageTest, FailedWriteBesideAFailedReadHoldsNewRequests) {
  open(2);
  submit(GetParam() ? Direction::read : Direction::write);
  const std::uint16_t stranded = only<PostRequest>().key.path;
  submit(Direction::read);
  submit(GetParam() ? Direction::write : Direction::read);
  lose(stranded);
  drain(stranded);
  const auto other = static_cast<std::uint16_t>(1 - stranded);
  lose(other);
  drain(other);
  wait_for_failures(3);
  come_back(other);
  submit();
  EXPECT_TRUE(asked<PostRequest>().empty());
}

TEST_F(ClientOutageTest, FailedReadHoldsNoRequests) {
  open(2);
  const std::uint16_t stranded = send_and_lose_path(Direction::read);
  const auto other = static_cast<std::uint16_t>(1 - stranded);
  fail_waiting_after_losing(other);
  come_back(other);
  const std::uint16_t later = submit();
  EXPECT_EQ(only<PostRequest>().permit, later);
}

TEST_F(ClientOutageTest, ReplayPolicyCountsUnprovenFailuresOfAKernelServer) {
  flags = 0;
  open(2);
  const std::uint16_t stranded = send_and_lose_path();
  const auto other = static_cast<std::uint16_t>(1 - stranded);
  const std::uint64_t before = session.counters().unproven_failures;
  lose(other);
  drain(other);
  wait_for_failures(1);
  EXPECT_EQ(session.counters().unproven_failures, before + 1);
  come_back(other);
  const std::uint16_t later = submit();
  EXPECT_EQ(only<PostRequest>().permit, later);
}

TEST_F(ClientOutageTest, WaitPolicyHoldsRequestsUntilThePathReconnects) {
  ClientConfig config = small_config();
  config.kernel_peer = UnfencedReplay::wait;
  session = ClientSession(config);
  flags = 0;
  open(2);
  const std::uint16_t stranded = send_and_lose_path();
  const auto other = static_cast<std::uint16_t>(1 - stranded);
  fail_waiting_after_losing(other);
  come_back(other);
  const std::uint16_t later = submit();
  EXPECT_TRUE(asked<PostRequest>().empty());
  come_back(stranded);
  EXPECT_EQ(only<PostRequest>().permit, later);
  EXPECT_EQ(session.counters().unproven_failures, 0U);
}

TEST_F(ClientOutageTest, RemovedPathOfAKernelServerDoesNotHoldRequestsForever) {
  ClientConfig config = small_config();
  config.kernel_peer = UnfencedReplay::wait;
  session = ClientSession(config);
  flags = 0;
  open(2);
  const std::uint16_t stranded = send_and_lose_path();
  const auto other = static_cast<std::uint16_t>(1 - stranded);
  fail_waiting_after_losing(other);
  come_back(other);
  const std::uint16_t later = submit();
  feed(PathRemoveRequested{now, stranded});
  EXPECT_TRUE(asked<PostRequest>().empty());
  now += config.fence_timeout;
  feed(DeadlineReached{now});
  EXPECT_EQ(only<PostRequest>().permit, later);
  EXPECT_EQ(session.counters().unproven_failures, 1U);
}

TEST_F(ClientOutageTest, QueueTimeoutCountsFromTheLossOfTheLastPath) {
  ClientConfig config = small_config();
  config.send_depth = 8;
  session = ClientSession(config);
  open(1);
  // The last requests wait for room in the send queue, not for a path.
  for (int i = 0; i < 4; ++i) submit();
  now += config.queue_timeout;
  const Nanos lost = now;
  lose(0);
  EXPECT_TRUE(asked<Complete>().empty());
  drain(0);
  EXPECT_TRUE(asked<Complete>().empty());
  EXPECT_EQ(session.path_wait_ends(lost - seconds(1)), lost + config.queue_timeout);
  wait_for_failures(4);
  EXPECT_GE(now - lost, config.queue_timeout);
}

// Regression test: seed 9507 of the simulator failed.
TEST_F(ClientOutageTest, UnansweredFenceDoesNotRestartQueueTimeout) {
  ClientConfig config = small_config();
  config.fence_failed = UnfencedReplay::replay;
  config.queue_timeout = config.fence_timeout + seconds(10);
  session = ClientSession(config);
  open(1);
  send_and_lose_path();
  const Nanos lost = now;
  wait_for_failures(1);
  EXPECT_EQ(now, lost + config.queue_timeout);
}

TEST_F(ClientOutageTest, NoRequestWaitsForAPathWhileOneIsConnected) {
  open(2);
  EXPECT_EQ(session.path_wait_ends(0), kNever);
  lose(0);
  EXPECT_EQ(session.path_wait_ends(0), kNever);
  lose(1);
  EXPECT_EQ(session.path_wait_ends(0), now + session.config().queue_timeout);
  EXPECT_EQ(session.path_wait_ends(now + 5), now + 5 + session.config().queue_timeout);
}

// queue_timeout 0: a request fails if no path is connected, but waits for room in the send queue.
TEST_F(ClientOutageTest, ZeroQueueTimeoutFailsRequestsAtOnceWithoutAPath) {
  ClientConfig config = small_config();
  config.send_depth = 8;
  config.queue_timeout = 0;
  session = ClientSession(config);
  open(1);
  // The last requests wait for room in the send queue.
  for (int i = 0; i < 4; ++i) submit();
  EXPECT_TRUE(asked<Complete>().empty());
  EXPECT_EQ(session.path_wait_ends(0), kNever);
  now += seconds(1);
  lose(0);
  drain(0);
  ASSERT_EQ(asked<Complete>().size(), 4U);
  for (const Complete& done : asked<Complete>()) EXPECT_EQ(done.result, Errc::no_path);
  EXPECT_EQ(session.permits_used(), 4U) << "the server may still execute the requests";
  come_back(0);
  EXPECT_EQ(session.permits_used(), 0U) << "the server has drained the older incarnation";
  submit();
  EXPECT_EQ(asked<PostRequest>().size(), 1U);
}

TEST_F(ClientOutageTest, ZeroQueueTimeoutTakesNoPermitWithoutAPath) {
  ClientConfig config = small_config();
  config.queue_timeout = 0;
  session = ClientSession(config);
  open(1);
  lose(0);
  drain(0);
  submit();
  EXPECT_EQ(only<Complete>().result, Errc::no_path);
  EXPECT_EQ(session.permits_used(), 0U);
}

}  // namespace
}  // namespace rtrs::client_outage_test
