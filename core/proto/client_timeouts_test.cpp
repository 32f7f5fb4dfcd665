// Tests timeouts at both ends of their range. A deadline that is always due would make the state machine loop
// forever.
#include "core/proto/test_client_session.hpp"

namespace rtrs::client_timeouts_test {
namespace {

ClientConfig with_fence_timeout(Nanos timeout) {
  ClientConfig config = small_config();
  config.fence_timeout = timeout;
  config.heartbeat.interval = seconds(3600);
  config.reconnect_min = config.reconnect_max = seconds(3600);
  return config;
}

class FenceTimeoutTest : public ClientSessionFixture {
 protected:
  explicit FenceTimeoutTest(const ClientConfig& config) : ClientSessionFixture(config) {}
  // Loses a path with a WRITE in flight. Returns the fence request, which is not answered.
  SendFenceReq ask() {
    open(2);
    submit();
    const std::uint16_t path = only<PostRequest>().key.path;
    lose(path);
    drain(path);
    return only<SendFenceReq>();
  }
};

class LastingFenceTest : public FenceTimeoutTest {
 protected:
  LastingFenceTest() : FenceTimeoutTest(with_fence_timeout(kNever)) {}
};

TEST_F(LastingFenceTest, AnswerMayTakeForever) {
  const SendFenceReq fence = ask();
  EXPECT_GT(session.next_deadline(), now + seconds(1000));
  feed(DeadlineReached{now + seconds(1000)});
  EXPECT_TRUE(asked<SendFenceReq>().empty());
  feed(FenceAnswered{now, fence.key, fence.serial, 0});
  EXPECT_EQ(asked<PostRequest>().size(), 1U);
}

class HastyFenceTest : public FenceTimeoutTest, public ::testing::WithParamInterface<Nanos> {
 protected:
  HastyFenceTest() : FenceTimeoutTest(with_fence_timeout(GetParam())) {}
};
INSTANTIATE_TEST_SUITE_P(Timeouts, HastyFenceTest, ::testing::Values(Nanos{0}, Nanos{1}, microseconds(1)));

TEST_P(HastyFenceTest, IsRepeatedOnlyAfterTheMinimumTimeout) {
  const SendFenceReq fence = ask();
  ASSERT_EQ(session.next_deadline(), now + kMinFenceTimeout);
  feed(DeadlineReached{now});
  EXPECT_TRUE(asked<SendFenceReq>().empty());
  feed(DeadlineReached{session.next_deadline()});
  EXPECT_NE(only<SendFenceReq>().serial, fence.serial);
  EXPECT_EQ(session.next_deadline(), now + kMinFenceTimeout);
}

TEST_P(HastyFenceTest, IsRepeatedAfterARefusalOnlyAtItsDeadline) {
  const SendFenceReq fence = ask();
  const Nanos due = session.next_deadline();
  feed(FenceAnswered{now, fence.key, fence.serial, 16});
  EXPECT_TRUE(asked<SendFenceReq>().empty());
  EXPECT_TRUE(asked<PostRequest>().empty()) << "no proof";
  EXPECT_EQ(session.next_deadline(), due);
  feed(DeadlineReached{due});
  const SendFenceReq again = only<SendFenceReq>();
  EXPECT_NE(again.serial, fence.serial);
  feed(FenceAnswered{now, again.key, again.serial, 0});
  EXPECT_EQ(asked<PostRequest>().size(), 1U);
}

class EndlessTest : public ClientSessionFixture {
 protected:
  EndlessTest() : ClientSessionFixture(endless()) {}
  static ClientConfig endless() {
    ClientConfig config = small_config();
    config.connect_timeout = config.info_timeout = config.fence_timeout = config.close_timeout = kNever;
    config.reconnect_min = config.reconnect_max = config.reconnect_jitter = config.busy_retry = kNever;
    config.heartbeat.interval = kNever;
    config.request_timeout = config.queue_timeout = kNever - 1;
    return config;
  }
};

TEST_F(EndlessTest, NoDeadlineIsEverDue) {
  add_path(0);
  EXPECT_EQ(session.next_deadline(), kNever) << "connecting";
  for (std::uint16_t con = 0; con < session.config().con_num; ++con) feed(accepted(key(0, con)));
  EXPECT_EQ(session.next_deadline(), kNever) << "INFO_RSP";
  feed(InfoAccepted{now, key(0, 0)});
  submit();
  EXPECT_EQ(session.next_deadline(), kNever) << "connected";
  lose(0);
  drain(0);
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
  EXPECT_EQ(session.next_deadline(), kNever) << "waiting, with a queued request";
  EXPECT_TRUE(asked<Complete>().empty());
}

TEST_F(EndlessTest, CloseWaitsForRequestsInFlight) {
  open(1);
  submit();
  feed(CloseRequested{now});
  EXPECT_EQ(session.next_deadline(), kNever);
  EXPECT_TRUE(asked<Complete>().empty());
}

TEST(LaterTest, SaturatesAtTheEndOfTheRange) {
  static_assert(later(1, 2) == 3 && later(0, kNever) == kNever && later(kNever, 0) == kNever);
  static_assert(later(seconds(1), kNever - 1) == kNever && later(1, kNever - 2) == kNever - 1);
  constexpr HeartbeatConfig kSilent{kNever, 5};
  static_assert(dead_peer_time(kSilent) == kNever);
  EXPECT_EQ(dead_peer_time({seconds(5), 5}), seconds(35));
}

}  // namespace
}  // namespace rtrs::client_timeouts_test
