// Misbehaving servers against the real client: the client closes the path with a reason and reconnects,
// completes no unanswered request, and does not hang.
#include "conformance/hostile/test_hostile.hpp"

namespace rtrs::hostile::hostile_server_test {
namespace {

class HostileServerTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kChunk = 16384;

  HostileServerTest()
      : client_fabric(world.network, 0, world.choice), peer(world, 1), client(options(), nullptr) {
    EXPECT_EQ(peer.fabric.listen(PathAddress{"", "n1.p0", 1234}), Errc::ok);
    world.step = [this](Nanos now) {
      std::array<IoCompletion, 8> finished;
      const std::size_t count = client.poll(client_fabric, now, finished);
      for (const IoCompletion& one : std::span(finished).first(count)) done.push_back(one);
      PathEvent news;
      while (client.take_news(news))
        if (news.kind == PathEvent::Kind::path && news.path.state == PathState::draining)
          lost.push_back(news.path);
      const std::size_t before = peer.seen.size();
      peer.poll();
      for (std::size_t i = before; i < peer.seen.size(); ++i) serve(peer.seen[i]);
    };
    world.deadline = [this] { return client.next_deadline(); };
  }
  static ClientOptions options() {
    ClientOptions made;
    made.session_name = "victim";
    made.paths = {PathAddress{"n0.p0", "n1.p0", 1234}};
    made.session_uuid = uuid(1);
    for (std::uint8_t i = 0; i < kMaxPaths; ++i)
      made.path_uuids.push_back(uuid(static_cast<std::uint8_t>(2 + i)));
    made.protocol.con_num = 2;
    made.protocol.send_depth = 64;
    return made;
  }
  // Acts as a correct server, except for what a test corrupts.
  void serve(const SeenEvent& event) {
    if (event.kind == SeenEvent::Kind::connect_requested) {
      const auto request = wire::parse_conn_req(event.bytes());
      ASSERT_TRUE(request);
      const ConKey key{0, request.value.cid, ++epoch};
      keys[request.value.cid] = key;
      wire::ConnRsp rsp;
      rsp.queue_depth = 8;
      rsp.max_io_size = kChunk - 4096;
      rsp.max_hdr_size = 4096;
      rsp.flags = flags;
      Message bytes(wire::kConnRspBytes);
      ASSERT_EQ(wire::encode(rsp, bytes), bytes.size());
      corrupt_conn_rsp(bytes);
      peer.fabric.accept(event.request, key, ConnectionParams{64, 256}, bytes);
      peer.fabric.post_receive(key, 64, 512);
    } else if (event.kind == SeenEvent::Kind::message_received) {
      if (chunks.id == kNoRegion) chunks = *peer.fabric.allocate(8 * kChunk);
      const RemoteKey remote_key = *peer.fabric.make_key(chunks.id, 0, chunks.bytes.size());
      const wire::Descriptor run{remote_key.remote_addr, remote_key.rkey, 8 * kChunk};
      Message bytes(wire::info_rsp_bytes(1));
      ASSERT_EQ(wire::encode_info_rsp(std::span(&run, 1), bytes), bytes.size());
      corrupt_info_rsp(bytes);
      peer.send(keys[0], bytes);
    }
  }
  void open() { ASSERT_EQ(client.open(client_fabric, 0), Errc::ok); }
  void connect() {
    open();
    ASSERT_TRUE(world.run_until([this] { return client.link_up(); }));
  }
  void submit() {
    IoRequest io;
    io.direction = Direction::write;
    io.data = data;
    ASSERT_EQ(client.submit(client_fabric, world.network.now(), io), Errc::ok);
    ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::imm_received) >= 1; }));
  }
  void expect_path_lost(Reason reason) {
    ASSERT_TRUE(world.run_until([this] { return !lost.empty(); }));
    EXPECT_EQ(lost.front().reason, reason);
    EXPECT_TRUE(done.empty());
  }

  World world;
  sim::SimFabric client_fabric;
  RawPeer peer;
  Client client;
  Region chunks;
  std::array<ConKey, 2> keys{};
  std::uint32_t epoch = 0;
  std::uint32_t flags = 0;
  std::vector<std::byte> data = std::vector<std::byte>(4096);
  std::vector<IoCompletion> done;
  std::vector<PathChanged> lost;
  std::function<void(Message&)> corrupt_conn_rsp = [](Message&) {};
  std::function<void(Message&)> corrupt_info_rsp = [](Message&) {};
};

struct Spoiled {
  const char* name;
  std::function<void(Message&)> spoil;
};
void PrintTo(const Spoiled& spoiled, std::ostream* out) {
  *out << spoiled.name;
}

class HostileConnRspTest : public HostileServerTest, public testing::WithParamInterface<Spoiled> {};
TEST_P(HostileConnRspTest, FailsTheAttemptAndIsTriedAgain) {
  corrupt_conn_rsp = GetParam().spoil;
  open();
  expect_path_lost(Reason::bad_conn_rsp);
  EXPECT_TRUE(world.run_until([this] { return lost.size() >= 2; }));
  corrupt_conn_rsp = [](Message&) {};
  EXPECT_TRUE(world.run_until([this] { return client.link_up(); }));
}
INSTANTIATE_TEST_SUITE_P(
    Fields, HostileConnRspTest,
    testing::Values(Spoiled{"magic", [](Message& m) { m[0] = std::byte{0}; }},
                    Spoiled{"version", [](Message& m) { m[3] = std::byte{1}; }},
                    Spoiled{"error", [](Message& m) { wire::store_le16(m, 4, 0xfff0); }},
                    Spoiled{"short", [](Message& m) { m.resize(20); }},
                    Spoiled{"empty", [](Message& m) { m.clear(); }},
                    Spoiled{"no_depth", [](Message& m) { wire::store_le16(m, 6, 0); }},
                    Spoiled{"no_chunk",
                            [](Message& m) {
                              wire::store_le32(m, 8, 0);
                              wire::store_le32(m, 12, 0);
                            }},
                    Spoiled{"chunk_wraps", [](Message& m) { wire::store_le32(m, 8, 0xfffff000U); }},
                    Spoiled{"too_many_bits", [](Message& m) { wire::store_le16(m, 6, 65535); }}),
    ByName{});

class HostileInfoRspTest : public HostileServerTest, public testing::WithParamInterface<Spoiled> {};
TEST_P(HostileInfoRspTest, FailsTheAttemptAndIsTriedAgain) {
  corrupt_info_rsp = GetParam().spoil;
  open();
  expect_path_lost(Reason::protocol_violation);
  corrupt_info_rsp = [](Message&) {};
  EXPECT_TRUE(world.run_until([this] { return client.link_up(); }));
}
INSTANTIATE_TEST_SUITE_P(
    Fields, HostileInfoRspTest,
    testing::Values(Spoiled{"type", [](Message& m) { m[0] = std::byte{7}; }},
                    Spoiled{"short", [](Message& m) { m.resize(9); }},
                    Spoiled{"no_runs", [](Message& m) { wire::store_le16(m, 2, 0); }},
                    Spoiled{"more_runs_than_sent", [](Message& m) { wire::store_le16(m, 2, 2); }},
                    Spoiled{"many_runs", [](Message& m) { wire::store_le16(m, 2, 65535); }},
                    Spoiled{"run_too_short", [](Message& m) { wire::store_le32(m, 20, 7 * 16384); }},
                    Spoiled{"run_uneven", [](Message& m) { wire::store_le32(m, 20, 8 * 16384 - 1); }},
                    Spoiled{"run_empty", [](Message& m) { wire::store_le32(m, 20, 0); }},
                    Spoiled{"address_wraps",
                            [](Message& m) { wire::store_le64(m, 8, ~std::uint64_t{0} - 100); }}),
    ByName{});

struct BadImmediate {
  const char* name;
  std::uint32_t imm;
};
void PrintTo(const BadImmediate& bad, std::ostream* out) {
  *out << bad.name;
}
class HostileResponseTest : public HostileServerTest, public testing::WithParamInterface<BadImmediate> {};
TEST_P(HostileResponseTest, ClosesThePathAndCompletesNothing) {
  connect();
  submit();
  peer.write_imm(keys[1], GetParam().imm);
  expect_path_lost(Reason::protocol_violation);
}
INSTANTIATE_TEST_SUITE_P(
    Immediates, HostileResponseTest,
    testing::Values(BadImmediate{"id_is_depth", wire::encode_io_rsp(wire::ImmType::io_rsp, 8, 0)},
                    BadImmediate{"id_max", wire::encode_io_rsp(wire::ImmType::io_rsp, wire::kMsgIdMask, 0)},
                    BadImmediate{"unknown_type", 0x30000000U},
                    BadImmediate{"request_from_a_server", wire::encode_io_req(8, 0, 0)},
                    BadImmediate{"invalidation_that_was_not",
                                 wire::encode_io_rsp(wire::ImmType::io_rsp_w_inv, 0, 0)}),
    ByName{});

TEST_F(HostileServerTest, ResponseForAnIdlePermitIsCountedAndIgnored) {
  connect();
  submit();
  peer.write_imm(keys[1], wire::encode_io_rsp(wire::ImmType::io_rsp, 3, 0));
  peer.write_imm(keys[1], wire::encode_io_rsp(wire::ImmType::io_rsp, 0, 0));
  ASSERT_TRUE(world.run_until([this] { return done.size() == 1; }));
  EXPECT_EQ(done[0].result, Errc::ok);
  EXPECT_EQ(client.stats().stale_responses, 1U);
  EXPECT_TRUE(lost.empty());
}

TEST_F(HostileServerTest, UnexpectedKeyClosesThePath) {
  connect();
  submit();
  Message rkey(wire::kRkeyRspBytes);
  ASSERT_EQ(wire::encode(wire::RkeyRsp{0, 99}, rkey), rkey.size());
  peer.send(keys[0], rkey, wire::encode_io_rsp(wire::ImmType::io_rsp, 0, 0));
  expect_path_lost(Reason::protocol_violation);
}

TEST_F(HostileServerTest, UnexpectedMessageClosesThePath) {
  connect();
  peer.send(keys[0], Message(24, std::byte{0x5a}));
  expect_path_lost(Reason::protocol_violation);
}

TEST_F(HostileServerTest, SilentServerIsDetectedWithinTheHeartbeatBound) {
  connect();
  const Nanos since = world.network.now();
  ASSERT_TRUE(world.run_until([this] { return !lost.empty(); }));
  EXPECT_EQ(lost.front().reason, Reason::heartbeat_lost);
  EXPECT_LE(world.network.now() - since, 7 * seconds(5) + milliseconds(10));
}

TEST_F(HostileServerTest, UnansweredRequestFailsWhenTheSessionCloses) {
  connect();
  submit();
  client.close(client_fabric, world.network.now());
  ASSERT_TRUE(world.run_until([this] { return client.closed(); }));
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].result, Errc::session_closed);
}

}  // namespace
}  // namespace rtrs::hostile::hostile_server_test
