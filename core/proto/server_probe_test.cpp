// Tests the probe at the server: HB_MSG on any connection is answered on that connection.
#include <algorithm>
#include <vector>

#include "core/proto/test_server_session.hpp"

namespace rtrs::server_probe_test {
namespace {

class ServerProbeTest : public ServerSessionTest {
 protected:
  ServerProbeTest() { extensions = wire::kKnownExtensions & ~wire::Extensions::keys_stay; }
  static ImmReceived probe(ConKey key) { return ImmReceived{0, key, wire::encode_hb(wire::ImmType::hb_msg)}; }
};

TEST_F(ServerProbeTest, IsGrantedIfRequestedAndConfigured) {
  feed(request(1, 0));
  EXPECT_NE(only<Accept>().flags & wire::kConnRspProbe, 0U);
  config.extensions = wire::Extensions::fence;
  remake();
  feed(request(1, 0));
  EXPECT_EQ(only<Accept>().flags, wire::kConnRspFence);
}

TEST_F(ServerProbeTest, IsAnsweredOnItsOwnConnectionWithAnExtraReceive) {
  const ConKey service = connect(1, 0);
  const ConKey io = connect(1, 1);
  feed(InfoRequested{0, service, 0});
  const auto receives = all<PostReceive>();
  ASSERT_EQ(receives.size(), 2U);
  EXPECT_EQ(receives[1].count, config.queue_depth + 1);
  feed(probe(io));
  EXPECT_EQ(only<PostImm>().key, io);
  EXPECT_EQ(only<PostImm>().imm, wire::encode_hb(wire::ImmType::hb_ack));
  EXPECT_EQ(only<PostReceive>().key, io);
  feed(probe(service));
  EXPECT_EQ(only<PostImm>().key, service);
}

TEST_F(ServerProbeTest, WaitsForRoomInTheSendQueueOfItsConnection) {
  config.send_depth = 8;
  remake();
  const Keys keys = bring_up(1);
  // Fills the queue: probe replies may use the entries reserved for heartbeats, and repeated probes get one
  // reply.
  std::vector<std::uint64_t> cookies;
  unsigned answered = 0;
  for (int i = 0; i < 20; ++i) {
    feed(probe(keys.io));
    for (const PostImm& post : all<PostImm>()) {
      ++answered;
      if (post.cookie != 0) cookies.push_back(post.cookie);
    }
  }
  EXPECT_EQ(answered, 8U);
  ASSERT_FALSE(cookies.empty());
  feed(SendDone{0, keys.io, cookies.front()});
  EXPECT_EQ(only<PostImm>().key, keys.io);
  EXPECT_EQ(state(keys.io), PathState::connected);
}

TEST_F(ServerProbeTest, IsNotAnsweredOnceThePathCloses) {
  config.send_depth = 8;
  remake();
  const Keys keys = bring_up(1);
  for (int i = 0; i < 20; ++i) feed(probe(keys.io));
  feed(ConnectionLost{0, keys.service, Reason::transport_error});
  feed(SendDone{0, keys.io, 1});
  EXPECT_TRUE(none<PostImm>());
}

// The clients do not support the probe extension, like kernel clients.
class ServerDeliveryProbeTest : public ServerSessionTest {
 protected:
  ServerDeliveryProbeTest() {
    extensions = wire::Extensions::none;
    config.probe_deliveries = true;
    remake();
  }
  // Advances the time by one interval, in which the client sends a heartbeat.
  std::vector<ProbeDelivery> tick(const Keys& keys) {
    feed(ImmReceived{0, keys.service, wire::encode_hb(wire::ImmType::hb_msg)});
    now = session->next_deadline();
    feed(DeadlineReached{});
    std::vector<ProbeDelivery> probes = all<ProbeDelivery>();
    std::vector<SendDone> done;
    for (const PostImm& post : all<PostImm>())
      if (post.cookie != 0) done.push_back(SendDone{0, post.key, post.cookie});
    // The probes of the service connection complete.
    std::erase_if(probes, [&](const ProbeDelivery& probe) {
      if (probe.key.con == 0) done.push_back(SendDone{0, probe.key, probe.cookie});
      return probe.key.con == 0;
    });
    for (const SendDone& one : done) feed(one);
    return probes;
  }
  void answer(const Keys& keys, std::uint16_t chunk) { respond(serve(write(keys.io, chunk))); }
};

TEST_F(ServerDeliveryProbeTest, UndeliveredResponseClosesThePathWithinTheDeadPeerTime) {
  const Keys keys = bring_up(1);
  const Nanos since = now;
  answer(keys, 0);
  unsigned sent = 0;
  while (state(keys.io) == PathState::connected && now - since < seconds(60)) {
    for (const ProbeDelivery& probe : tick(keys)) {
      EXPECT_EQ(probe.key, keys.io);
      EXPECT_EQ(probe.cookie, retiring(2)) << "also retires the response before it";
      ++sent;
    }
  }
  EXPECT_EQ(sent, 1U);
  EXPECT_EQ(state(keys.io), PathState::closing);
  EXPECT_GE(now - since, (config.heartbeat.missed_max + 1) * config.heartbeat.interval);
  EXPECT_LE(now - since, (config.heartbeat.missed_max + 2) * config.heartbeat.interval);
}

TEST_F(ServerDeliveryProbeTest, CompletedProbeIsNotRepeatedUntilWorkIsPosted) {
  const Keys keys = bring_up(1);
  answer(keys, 0);
  const auto probes = tick(keys);
  ASSERT_EQ(probes.size(), 1U);
  feed(SendDone{0, keys.io, probes[0].cookie});
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(tick(keys).empty());
  EXPECT_EQ(state(keys.io), PathState::connected);
  answer(keys, 1);
  EXPECT_EQ(tick(keys).size(), 1U);
}

TEST_F(ServerDeliveryProbeTest, RequestInServiceIsProbedWithoutATimeLimit) {
  const Keys keys = bring_up(1);
  feed(write(keys.io, 0));
  for (int i = 0; i < 60; ++i) {
    const auto probes = tick(keys);
    ASSERT_EQ(probes.size(), 1U);
    feed(SendDone{0, keys.io, probes[0].cookie});
  }
  EXPECT_EQ(state(keys.io), PathState::connected);
}

TEST_F(ServerDeliveryProbeTest, KeyThatIsNotInvalidatedClosesThePath) {
  config.always_invalidate = true;
  remake();
  const Keys keys = bring_up(1);
  feed(write(keys.io, 0));
  only<InvalidateChunk>();
  const Nanos since = now;
  while (state(keys.io) == PathState::connected && now - since < seconds(60)) tick(keys);
  EXPECT_EQ(state(keys.io), PathState::closing);
}

TEST_F(ServerDeliveryProbeTest, WaitsForRoomInTheSendQueue) {
  config.send_depth = 8;
  remake();
  const Keys keys = bring_up(1);
  feed(write(keys.io, 0));
  // Heartbeat replies fill the queue of the service connection, and nothing completes.
  std::uint64_t cookie = 0;
  for (int i = 0; i < 20; ++i) {
    feed(ImmReceived{0, keys.service, wire::encode_hb(wire::ImmType::hb_msg)});
    for (const PostImm& post : all<PostImm>()) cookie = std::max(cookie, post.cookie);
  }
  ASSERT_NE(cookie, 0U);
  now = session->next_deadline();
  feed(DeadlineReached{});
  EXPECT_EQ(only<ProbeDelivery>().key, keys.io) << "the other connection has room";
  feed(SendDone{0, keys.service, cookie});
  EXPECT_EQ(only<ProbeDelivery>().key, keys.service);
}

// Uses more connections than one step probes, and more paths than a session initially has room for.
TEST_F(ServerDeliveryProbeTest, EveryConnectionOfEveryPathIsProbedOnce) {
  constexpr std::uint16_t kCons = 2 * kConsPerStep + 1;
  constexpr std::uint8_t kPaths = kPathsInside + 1;
  config.queue_depth = 2 * kPaths;
  remake();
  for (std::uint8_t path = 1; path <= kPaths; ++path) {
    const ConKey service = bring_up_wide(path, kCons);
    feed(write(service, static_cast<std::uint16_t>(path % config.queue_depth)));
  }
  std::vector<ConKey> probed;
  now = session->next_deadline();
  while (session->next_deadline() <= now) {
    feed(DeadlineReached{});
    settle();
    for (const ProbeDelivery& one : all<ProbeDelivery>()) probed.push_back(one.key);
  }
  std::sort(probed.begin(), probed.end());
  EXPECT_EQ(std::unique(probed.begin(), probed.end()), probed.end());
  EXPECT_EQ(probed.size(), std::size_t{kPaths} * kCons);
}

TEST_F(ServerDeliveryProbeTest, ClientWithTheProbeExtensionIsNotProbed) {
  extensions = wire::Extensions::probe;
  const Keys keys = bring_up(1);
  answer(keys, 0);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(tick(keys).empty());
}

}  // namespace
}  // namespace rtrs::server_probe_test
