// Misbehaving clients against the real server: each gets an error or is disconnected in time, no resource is
// leaked, and an independent correct session is not disturbed.
#include "conformance/hostile/test_hostile.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::hostile::hostile_client_test {
namespace {

constexpr ConKey kService{0, 0, 1};
constexpr ConKey kIo{0, 1, 1};
const PathAddress kServer{"n0.p0", "n1.p0", 1234};

class HostileClientTest : public testing::Test {
 protected:
  HostileClientTest()
      : server_fabric(world.network, 1, world.choice), peer(world, 0), server(config(), nullptr) {
    EXPECT_EQ(server.listen(server_fabric, 0, PathAddress{"", "n1.p0", 1234}), Errc::ok);
    world.step = [this](Nanos now) {
      std::array<ServerEvent, 16> events;
      const std::size_t count = server.poll(server_fabric, now, events);
      for (const ServerEvent& event : std::span(events).first(count)) {
        if (event.kind != ServerEvent::Kind::request) continue;
        ++requests;
        server.respond(server_fabric, now, event.id, 0);
      }
      peer.poll();
    };
    world.deadline = [this] { return server.next_deadline(); };
  }
  ServerConfig config() {
    ServerConfig made;
    made.queue_depth = 8;
    made.chunk_size = 16384;
    made.send_depth = 64;
    return clamp_to(made, world.network.capabilities());
  }
  void handshake() {
    peer.connect(kService, conn_req(0), kServer);
    peer.connect(kIo, conn_req(1), kServer);
    ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connected) == 2; }));
    peer.fabric.post_receive(kService, 16, 512);
    peer.fabric.post_receive(kIo, 16, 64);
    peer.send(kService, info_req());
    ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::message_received) == 1; }));
    const wire::Bytes info = peer.seen.back().bytes();
    ASSERT_TRUE(wire::parse_info_rsp(info, 8, 16384));
    chunk = wire::info_rsp_chunk(info, 0, 16384).value;
  }
  // The server must close both connections of the path and free its session.
  void expect_cut_off() {
    EXPECT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connection_lost) == 2; }));
    EXPECT_TRUE(world.run_until([this] { return server.session_count() == 0; }));
    EXPECT_EQ(requests, 0U);
  }

  World world;
  sim::SimFabric server_fabric;
  RawPeer peer;
  Server server;
  wire::Descriptor chunk;
  unsigned requests = 0;
};

struct BadConnect {
  const char* name;
  std::function<void(Message&)> spoil;
  int error;
};
void PrintTo(const BadConnect& bad, std::ostream* out) {
  *out << bad.name;
}

class HostileConnectTest : public HostileClientTest, public testing::WithParamInterface<BadConnect> {};

TEST_P(HostileConnectTest, IsRejectedWithoutALeak) {
  Message request = conn_req(0);
  GetParam().spoil(request);
  peer.connect(kService, request, kServer);
  ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connect_failed) == 1; }));
  const SeenEvent* failed = peer.last(SeenEvent::Kind::connect_failed);
  EXPECT_EQ(failed->reason, Reason::rejected);
  EXPECT_EQ(wire::reject_errno(failed->bytes()), GetParam().error);
  EXPECT_EQ(server.session_count(), 0U);
  EXPECT_GE(server.stats().rejected, 1U);
}

using wire::linux_errno::kEconnreset;
using wire::linux_errno::kEnxio;
INSTANTIATE_TEST_SUITE_P(
    Fields, HostileConnectTest,
    testing::Values(BadConnect{"nothing", [](Message& m) { m.clear(); }, kEconnreset},
                    BadConnect{"short", [](Message& m) { m.resize(55); }, kEconnreset},
                    BadConnect{"magic", [](Message& m) { m[2] = std::byte{0}; }, kEconnreset},
                    BadConnect{"version", [](Message& m) { m[5] = std::byte{3}; }, kEconnreset},
                    BadConnect{"cid", [](Message& m) { wire::store_le16(m, 6, 2); }, kEconnreset},
                    BadConnect{"cid_max", [](Message& m) { wire::store_le16(m, 6, 65535); }, kEconnreset},
                    BadConnect{"no_cids", [](Message& m) { wire::store_le16(m, 8, 0); }, kEconnreset},
                    BadConnect{"many_cids", [](Message& m) { wire::store_le16(m, 8, 4097); }, kEconnreset},
                    BadConnect{"not_first", [](Message& m) { m[44] = std::byte{0}; }, kEnxio}),
    ByName{});

TEST_F(HostileClientTest, ClientDuringShutdownIsNotLoggedAsDisconnectedByAnOperator) {
  server.close(server_fabric, world.network.now());
  peer.connect(kService, conn_req(0), kServer);
  ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connect_failed) == 1; }));
  const auto by = [this](Reason reason) {
    return server.stats().rejected_by[static_cast<std::size_t>(reason)];
  };
  EXPECT_EQ(by(Reason::requested), 0U);
  EXPECT_EQ(by(Reason::session_closed), 1U);
  EXPECT_EQ(wire::reject_errno(peer.last(SeenEvent::Kind::connect_failed)->bytes()), kEconnreset)
      << "this errno lets the client try again";
}

struct BadMessage {
  const char* name;
  std::function<Message()> make;
};
void PrintTo(const BadMessage& bad, std::ostream* out) {
  *out << bad.name;
}

class HostileInfoTest : public HostileClientTest, public testing::WithParamInterface<BadMessage> {};

TEST_P(HostileInfoTest, ClosesThePath) {
  peer.connect(kService, conn_req(0), kServer);
  peer.connect(kIo, conn_req(1), kServer);
  ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connected) == 2; }));
  peer.send(kService, GetParam().make());
  expect_cut_off();
}

Message corrupted_info_req(const std::function<void(Message&)>& spoil) {
  Message message = info_req();
  spoil(message);
  return message;
}
INSTANTIATE_TEST_SUITE_P(
    Fields, HostileInfoTest,
    testing::Values(
        BadMessage{"empty", [] { return Message(1); }},
        BadMessage{"short", [] { return corrupted_info_req([](Message& m) { m.resize(271); }); }},
        BadMessage{"type", [] { return corrupted_info_req([](Message& m) { m[0] = std::byte{9}; }); }},
        BadMessage{"slash", [] { return corrupted_info_req([](Message& m) { m[3] = std::byte{'/'}; }); }},
        BadMessage{"dot", [] { return corrupted_info_req([](Message& m) { m[3] = std::byte{'.'}; }); }},
        BadMessage{"no_name", [] { return corrupted_info_req([](Message& m) { m[2] = std::byte{0}; }); }},
        BadMessage{"unterminated",
                   [] {
                     return corrupted_info_req(
                         [](Message& m) { std::fill(m.begin() + 2, m.end(), std::byte{'x'}); });
                   }}),
    ByName{});

TEST_F(HostileClientTest, InfoBeforeAllConnectionsClosesThePath) {  // requirement R02
  peer.connect(kService, conn_req(0), kServer);
  ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connected) == 1; }));
  peer.send(kService, info_req());
  EXPECT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connection_lost) == 1; }));
  EXPECT_TRUE(world.run_until([this] { return server.session_count() == 0; }));
}

TEST_F(HostileClientTest, HalfOpenPathIsReaped) {  // requirement R01
  peer.connect(kService, conn_req(0), kServer);
  ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connected) == 1; }));
  EXPECT_TRUE(world.run_until([this] { return server.session_count() == 0; }, seconds(40)));
}

struct BadRequest {
  const char* name;
  std::uint32_t imm;
  Message at_chunk_start;  // written to the start of the chunk, whatever the offset in the immediate is
};
void PrintTo(const BadRequest& bad, std::ostream* out) {
  *out << bad.name;
}

class HostileRequestTest : public HostileClientTest, public testing::WithParamInterface<BadRequest> {};

TEST_P(HostileRequestTest, ClosesThePathAndIsNotDelivered) {
  handshake();
  peer.write_imm(kIo, GetParam().imm, GetParam().at_chunk_start, chunk);
  expect_cut_off();
}

// 16 bytes of user header, then an RTRS header made of these 16-bit words.
Message request(std::initializer_list<std::uint16_t> words, std::uint32_t desc_len = 0) {
  Message bytes(16 + 24);
  std::size_t at = 16;
  for (const std::uint16_t word : words) {
    wire::store_le16(bytes, at, word);
    at += 2;
  }
  wire::store_le32(bytes, 16 + 20, desc_len);
  return bytes;
}
const std::uint32_t kBehindHeader = wire::encode_io_req(8, 0, 16);
INSTANTIATE_TEST_SUITE_P(
    Fields, HostileRequestTest,
    testing::Values(BadRequest{"offset_beyond", wire::encode_io_req(8, 0, 16384), request({2, 16})},
                    BadRequest{"header_cut_off", wire::encode_io_req(8, 0, 16383), request({2, 16})},
                    BadRequest{"type_unknown", kBehindHeader, request({7, 16})},
                    BadRequest{"type_of_info", kBehindHeader, request({0, 16})},
                    BadRequest{"user_header_too_long", kBehindHeader, request({2, 17})},
                    BadRequest{"user_header_max", kBehindHeader, request({3, 65535, 0, 0})},
                    BadRequest{"two_descriptors", kBehindHeader, request({3, 16, 0, 2})},
                    BadRequest{"many_descriptors", kBehindHeader, request({3, 16, 0, 65535})},
                    BadRequest{"empty_descriptor", kBehindHeader, request({3, 16, 0, 1}, 0)},
                    BadRequest{"huge_descriptor", kBehindHeader, request({3, 16, 0, 1}, 16385)},
                    BadRequest{"generation_not_agreed", kBehindHeader, request({0x0102, 16})},
                    BadRequest{"immediate_unknown", 0x70000000U, request({2, 16})},
                    BadRequest{"immediate_of_a_server", wire::encode_io_rsp(wire::ImmType::io_rsp, 0, 0),
                               request({2, 16})}),
    ByName{});

TEST_F(HostileClientTest, SecondRequestOnABusyChunkClosesThePath) {  // requirement L22
  handshake();
  const Message good = request({2, 16});
  std::array<ServerEvent, 16> events;
  std::size_t delivered = 0;
  world.step = [&](Nanos now) {
    delivered += server.poll(server_fabric, now, events);
    peer.poll();
  };
  peer.write_imm(kIo, kBehindHeader, good, chunk);
  ASSERT_TRUE(world.run_until([&] { return delivered >= 1; }));
  const RequestId first = events[0].id;
  peer.write_imm(kIo, kBehindHeader, good, chunk);
  ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connection_lost) == 2; }));
  server.respond(server_fabric, world.network.now(), first, 0);
  EXPECT_TRUE(world.run_until([this] { return server.session_count() == 0; }));
  EXPECT_EQ(server.stats().dropped_responses, 1U);
}

TEST_F(HostileClientTest, CorrectSessionIsUnaffectedByAMisbehavingClient) {
  const sim::NodeId third = world.network.add_node();
  sim::SimFabric honest_fabric(world.network, third, world.choice);
  ClientOptions options;
  options.session_name = "honest";
  options.paths = {PathAddress{"n2.p0", "n1.p0", 1234}};
  options.session_uuid = uuid(0x55);
  for (std::uint8_t i = 0; i < kMaxPaths; ++i)
    options.path_uuids.push_back(uuid(static_cast<std::uint8_t>(0x60 + i)));
  options.protocol.send_depth = 64;
  Client honest(options, nullptr);
  ASSERT_EQ(honest.open(honest_fabric, 0), Errc::ok);
  unsigned ok = 0;
  const auto server_step = world.step;
  world.step = [&](Nanos now) {
    server_step(now);
    std::array<IoCompletion, 8> done;
    const std::size_t count = honest.poll(honest_fabric, now, done);
    for (const IoCompletion& one : std::span(done).first(count)) ok += one.result == Errc::ok ? 1 : 0;
    if (world.network.has_events(third)) world.network.run_until(now, world.choice);
  };
  world.deadline = [&] { return std::min(server.next_deadline(), honest.next_deadline()); };
  ASSERT_TRUE(world.run_until([&] { return honest.link_up(); }));
  handshake();
  std::vector<std::byte> data(4096);
  IoRequest io;
  io.direction = Direction::write;
  io.data = data;
  ASSERT_EQ(honest.submit(honest_fabric, world.network.now(), io), Errc::ok);
  peer.write_imm(kIo, 0x70000000U);
  ASSERT_TRUE(world.run_until([this] { return peer.count(SeenEvent::Kind::connection_lost) == 2; }));
  ASSERT_EQ(honest.submit(honest_fabric, world.network.now(), io), Errc::ok);
  EXPECT_TRUE(world.run_until([&] { return ok == 2; }));
  EXPECT_TRUE(honest.link_up());
  EXPECT_EQ(honest.paths()[0].reconnects, 0U);
}

}  // namespace
}  // namespace rtrs::hostile::hostile_client_test
