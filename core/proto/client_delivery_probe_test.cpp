// Tests ProbeDelivery: work on a connection does not complete, although the path's heartbeat is
// answered. The server does not support the probe extension.
#include <algorithm>

#include "core/proto/test_client_session.hpp"

namespace rtrs::client_delivery_probe_test {
namespace {

ClientConfig probing_deliveries() {
  ClientConfig config = small_config();
  config.probe_deliveries = true;
  return config;
}

class ClientDeliveryProbeTest : public ClientSessionFixture {
 protected:
  ClientDeliveryProbeTest() : ClientSessionFixture(probing_deliveries()) { flags = 0; }

  const HeartbeatConfig& heartbeat() const { return session.config().heartbeat; }
  // Advances time by one interval. Heartbeats arrive and complete on the service connection, so the path
  // stays alive.
  std::vector<ProbeDelivery> tick() {
    feed(ImmReceived{now, key(0, 0), wire::encode_hb(wire::ImmType::hb_msg)});
    complete_heartbeats();
    feed(DeadlineReached{session.next_deadline()});
    const std::vector<ProbeDelivery> probes = asked<ProbeDelivery>();
    complete_heartbeats();
    return probes;
  }
  void complete_heartbeats() {
    for (const PostImm& post : asked<PostImm>())
      if (post.cookie != 0) feed(SendDone{now, post.key, post.cookie});
  }
};

TEST_F(ClientDeliveryProbeTest, UndeliveredRequestClosesThePathWithinTheDeadPeerTime) {
  open(1);
  const Nanos since = now;
  submit();
  const PostRequest request = only<PostRequest>();
  unsigned sent = 0;
  while (session.path(0).connected() && now - since < seconds(60)) {
    for (const ProbeDelivery& probe : tick()) {
      EXPECT_EQ(probe.key, request.key);
      EXPECT_NE(probe.cookie, 0U) << "signalled: the completion is the reply";
      ++sent;
    }
  }
  EXPECT_EQ(sent, 1U);
  EXPECT_EQ(session.path(0).reason(), Reason::connection_silent);
  EXPECT_GE(now - since, (heartbeat().missed_max + 1) * heartbeat().interval);
  EXPECT_LE(now - since, (heartbeat().missed_max + 2) * heartbeat().interval);
}

TEST_F(ClientDeliveryProbeTest, SlowServerKeepsThePathWhileProbesComplete) {
  open(1);
  submit();
  const PostRequest request = only<PostRequest>();
  for (int i = 0; i < 60; ++i) {
    const auto probes = tick();
    ASSERT_EQ(probes.size(), 1U) << "one each interval";
    feed(SendDone{now, probes[0].key, probes[0].cookie});
    ASSERT_TRUE(session.path(0).connected());
  }
  respond(request);
  EXPECT_EQ(only<Complete>().result, Errc::ok);
  EXPECT_TRUE(tick().empty()) << "nothing is outstanding";
}

TEST_F(ClientDeliveryProbeTest, ServerWithTheProbeExtensionGetsNoProbeDelivery) {
  flags = wire::kConnRspProbe;
  open(1);
  submit();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(tick().empty());
}

// Other connections keep the path's heartbeat alive.
TEST_F(ClientDeliveryProbeTest, UndeliveredServiceRequestClosesThePathDespiteOtherTraffic) {
  open(1);
  feed(Submitted{now, session.next_permit(), Direction::write, true, false, 0, 512, 32});
  ASSERT_EQ(only<PostRequest>().key.con, 0);
  const Nanos since = now;
  unsigned sent = 0;
  while (session.path(0).connected() && now - since < seconds(60)) {
    feed(ImmReceived{now, key(0, 1), wire::encode_io_rsp(wire::ImmType::io_rsp, 3, 0)});
    feed(DeadlineReached{session.next_deadline()});
    for (const ProbeDelivery& probe : asked<ProbeDelivery>()) sent += probe.key == key(0, 0) ? 1U : 0U;
  }
  EXPECT_EQ(sent, 1U);
  EXPECT_EQ(session.path(0).reason(), Reason::connection_silent);
  EXPECT_LE(now - since, (heartbeat().missed_max + 2) * heartbeat().interval);
}

TEST_F(ClientDeliveryProbeTest, WaitsForRoomInTheSendQueue) {
  ClientConfig config = probing_deliveries();
  config.send_depth = 8;
  session = ClientSession(config);
  open(1);
  feed(Submitted{now, session.next_permit(), Direction::write, true, false, 0, 512, 32});
  // Heartbeat replies fill the queue, and nothing completes.
  std::uint64_t cookie = 0;
  for (int i = 0; i < 20; ++i) {
    feed(ImmReceived{now, key(0, 0), wire::encode_hb(wire::ImmType::hb_msg)});
    for (const PostImm& post : asked<PostImm>()) cookie = std::max(cookie, post.cookie);
  }
  ASSERT_NE(cookie, 0U);
  for (int i = 0; i < 2; ++i) {
    feed(DeadlineReached{session.next_deadline()});
    EXPECT_TRUE(asked<ProbeDelivery>().empty());
  }
  feed(SendDone{now, key(0, 0), cookie});
  EXPECT_EQ(only<ProbeDelivery>().key, key(0, 0));
}

}  // namespace
}  // namespace rtrs::client_delivery_probe_test
