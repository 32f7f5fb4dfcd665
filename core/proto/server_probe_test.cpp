// The probe at the server: HB_MSG over any connection is answered over that connection.
#include "core/proto/test_server_session.hpp"

namespace rtrs {
namespace {

class ServerProbeTest : public ServerSessionTest {
 protected:
  ServerProbeTest() { extensions = 7; }
  static ImmReceived probe(ConKey key) { return ImmReceived{0, key, wire::encode_hb(wire::ImmType::hb_msg)}; }
};

TEST_F(ServerProbeTest, IsGrantedWhenItIsAskedForAndConfigured) {
  feed(request(1, 0));
  EXPECT_NE(only<Accept>().flags & wire::kConnRspProbe, 0U);
  config.extensions = wire::kExtensionFence;
  remake();
  feed(request(1, 0));
  EXPECT_EQ(only<Accept>().flags, wire::kConnRspFence);
}

TEST_F(ServerProbeTest, IsAnsweredOnItsOwnConnectionWithOneMoreReceiveThanRequests) {
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
  // Fills the queue: probes may use the entries that answers leave, and repeated ones are answered once.
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

TEST_F(ServerProbeTest, IsOwedToNobodyOnceThePathCloses) {
  config.send_depth = 8;
  remake();
  const Keys keys = bring_up(1);
  for (int i = 0; i < 20; ++i) feed(probe(keys.io));
  feed(ConnectionLost{0, keys.service, Reason::transport_error});
  feed(SendDone{0, keys.io, 1});
  EXPECT_TRUE(none<PostImm>());
}

}  // namespace
}  // namespace rtrs
