// Tests that the probe detects one connection that delivers nothing, although the path's heartbeat is
// answered.
#include "core/proto/test_client_session.hpp"

namespace rtrs::client_probe_test {
namespace {

class ClientProbeTest : public ClientSessionFixture {
 protected:
  ClientProbeTest() { flags |= wire::kConnRspProbe; }

  const HeartbeatConfig& heartbeat() const { return session.config().heartbeat; }
  // Advances the time by one interval. Every message arrives on the service connection, so the path stays
  // alive.
  void tick() {
    feed(ImmReceived{now, key(0, 0), wire::encode_hb(wire::ImmType::hb_msg)});
    complete_sends();
    feed(DeadlineReached{session.next_deadline()});
    const std::vector<ClientAction> ticked = actions;
    complete_sends();
    actions = ticked;
  }
  void complete_sends() {
    for (const PostImm& post : asked<PostImm>())
      if (post.cookie != 0) feed(SendDone{now, post.key, post.cookie});
  }
  std::vector<PostImm> probes() const {
    std::vector<PostImm> found;
    for (const PostImm& post : asked<PostImm>())
      if (post.key.con != 0) found.push_back(post);
    return found;
  }
  void acknowledge(std::uint16_t con) {
    feed(ImmReceived{now, key(0, con), wire::encode_hb(wire::ImmType::hb_ack)});
  }
};

TEST_F(ClientProbeTest, RequestOnASilentConnectionClosesThePathWithinTheDeadPeerTime) {
  open(2);
  const Nanos since = now;
  submit();
  const PostRequest request = only<PostRequest>();
  ASSERT_EQ(request.key.path, 0);
  unsigned sent = 0;
  while (session.path(0).connected()) {
    feed(ImmReceived{now, key(1, 0), wire::encode_hb(wire::ImmType::hb_msg)});
    tick();
    for (const PostImm& probe : probes()) {
      EXPECT_EQ(probe.key, request.key);
      EXPECT_EQ(probe.imm, wire::encode_hb(wire::ImmType::hb_msg));
      ++sent;
    }
    ASSERT_LT(now - since, seconds(60));
  }
  EXPECT_EQ(sent, 1U);
  EXPECT_EQ(session.path(0).reason(), Reason::connection_silent);
  EXPECT_GE(now - since, (heartbeat().missed_max + 1) * heartbeat().interval);
  EXPECT_LE(now - since, (heartbeat().missed_max + 2) * heartbeat().interval);
  // After the fence, the request is resent over the other path.
  drain(0);
  const SendFenceReq fence = only<SendFenceReq>();
  EXPECT_EQ(fence.key.path, 1);
  feed(FenceAnswered{now, fence.key, fence.serial, 0});
  EXPECT_EQ(only<PostRequest>().key.path, 1);
  EXPECT_TRUE(only<FailedOver>().fenced);
}

TEST_F(ClientProbeTest, SlowServerThatAnswersProbesKeepsThePath) {
  open(1);
  submit();
  const PostRequest request = only<PostRequest>();
  unsigned sent = 0;
  for (int i = 0; i < 60; ++i) {
    tick();
    ASSERT_TRUE(session.path(0).connected());
    sent += static_cast<unsigned>(probes().size());
    if (!probes().empty()) acknowledge(1);
  }
  EXPECT_EQ(sent, 60U) << "one each interval";
  respond(request);
  EXPECT_EQ(only<Complete>().result, Errc::ok);
}

TEST_F(ClientProbeTest, IdleConnectionsAreNotProbed) {
  open(1);
  for (int i = 0; i < 60; ++i) {
    tick();
    EXPECT_TRUE(probes().empty());
  }
  EXPECT_TRUE(session.path(0).connected());
}

TEST_F(ClientProbeTest, UnansweredProbeIsNotRepeated) {
  open(1);
  submit();
  const PostRequest first = only<PostRequest>();
  tick();
  EXPECT_EQ(probes().size(), 1U);
  respond(first);
  submit();
  for (int i = 0; i < 3; ++i) {
    tick();
    EXPECT_TRUE(probes().empty()) << "the server posted only one receive for probes";
  }
  acknowledge(1);
  tick();
  EXPECT_EQ(probes().size(), 1U);
}

TEST_F(ClientProbeTest, ServerWithoutTheExtensionIsNotProbedOnIoConnections) {
  flags = wire::kConnRspFence | wire::kConnRspGeneration;
  open(1);
  submit();
  for (int i = 0; i < 60; ++i) {
    tick();
    EXPECT_TRUE(probes().empty());
  }
  EXPECT_TRUE(session.path(0).connected());
}

TEST_F(ClientProbeTest, UnansweredFenceIsOutstandingOnTheServiceConnection) {
  open(2);
  submit();
  ASSERT_EQ(only<PostRequest>().key.path, 0);
  lose(0);
  drain(0);
  ASSERT_EQ(only<SendFenceReq>().key, key(1, 0));
  const Nanos since = now;
  while (session.path(1).connected() && now - since < seconds(59)) {
    // Another connection delivers a response.
    feed(ImmReceived{now, key(1, 1), wire::encode_io_rsp(wire::ImmType::io_rsp, 3, 0)});
    feed(DeadlineReached{session.next_deadline()});
  }
  EXPECT_EQ(session.path(1).reason(), Reason::connection_silent);
  EXPECT_LE(now - since, (heartbeat().missed_max + 2) * heartbeat().interval);
}

TEST_F(ClientProbeTest, AdministrativeRequestsCountOnTheServiceConnection) {
  open(1);
  const std::uint16_t permit = session.next_permit();
  feed(Submitted{now, permit, Direction::write, true, false, 0, 512, 32});
  EXPECT_EQ(only<PostRequest>().key.con, 0);
  const Nanos since = now;
  while (session.path(0).connected() && now - since < seconds(60)) {
    // Another connection delivers a response.
    feed(ImmReceived{now, key(0, 1), wire::encode_io_rsp(wire::ImmType::io_rsp, 3, 0)});
    feed(DeadlineReached{session.next_deadline()});
  }
  EXPECT_EQ(session.path(0).reason(), Reason::connection_silent);
  EXPECT_LE(now - since, (heartbeat().missed_max + 2) * heartbeat().interval);
}

}  // namespace
}  // namespace rtrs::client_probe_test
