// Sends every kind of invalid client message in every state of the path. The server must answer or disconnect
// in time, free all resources, and an independent correct session must not be disturbed.
#include <memory>

#include "conformance/hostile/message_variants.hpp"
#include "sim/world/watched_fabric.hpp"

namespace rtrs::hostile::every_invalid_client_message_test {
namespace {

constexpr ConKey kService{0, 0, 1};
constexpr ConKey kIo{0, 1, 1};
const PathAddress kServer{"n0.p0", "n1.p0", 1234};
constexpr std::uint32_t kChunk = 16384;
// Far below the heartbeat and handshake timeouts, so a path that ends in this time was closed because of the
// message.
constexpr Nanos kBound = seconds(4);

enum class State { nothing, one_connection, all_connections, connected, serving };
constexpr State kEveryState[] = {State::nothing, State::one_connection, State::all_connections,
                                 State::connected, State::serving};
constexpr State kWithConnections[] = {State::one_connection, State::all_connections, State::connected,
                                      State::serving};

Message con_req_of(std::uint16_t cid) {
  Message bytes = conn_req(cid);
  bytes[45] = std::byte{7};  // fence, generation and probe extensions
  return bytes;
}

// A server with a correct client and a misbehaving one.
class Scene {
 public:
  Scene()
      : server_sim_(world_.network, 1, world_.choice),
        peer_(world_, 0),
        third_(world_.network.add_node()),
        correct_sim_(world_.network, third_, world_.choice),
        server_(clamp_to(config(), world_.network.capabilities()), nullptr),
        correct_client_(options(), nullptr) {
    EXPECT_EQ(server_.listen(server_fabric_, 0, PathAddress{"", "n1.p0", 1234}), Errc::ok);
    EXPECT_EQ(correct_client_.open(correct_fabric_, 0), Errc::ok);
    world_.step = [this](Nanos now) { step(now); };
    world_.deadline = [this] { return std::min(server_.next_deadline(), correct_client_.next_deadline()); };
    EXPECT_TRUE(world_.run_until([this] { return correct_client_.link_up(); }));
  }

  void advance_to(State state) {
    if (state == State::nothing) return;
    peer_.connect(kService, con_req_of(0), kServer);
    ASSERT_TRUE(world_.run_until([this] { return count(SeenEvent::Kind::connected) == 1; }));
    peer_.fabric.post_receive(kService, 16, 512);
    if (state == State::one_connection) return;
    peer_.connect(kIo, con_req_of(1), kServer);
    ASSERT_TRUE(world_.run_until([this] { return count(SeenEvent::Kind::connected) == 2; }));
    peer_.fabric.post_receive(kIo, 16, 64);
    if (state == State::all_connections) return;
    peer_.send(kService, info_req());
    ASSERT_TRUE(world_.run_until([this] { return count(SeenEvent::Kind::message_received) == 1; }));
    chunk_ = wire::info_rsp_chunk(peer_.seen.back().bytes(), 0, kChunk).value;
    if (state == State::connected) return;
    hold_ = true;
    peer_.write_imm(kIo, wire::encode_io_req(8, 0, 4096 + 32), write_request(4096), chunk_);
    ASSERT_TRUE(world_.run_until([this] { return held_.size() == 1; }));
    hold_ = false;  // later requests are answered
  }

  void connect(const Message& bytes) { peer_.connect({0, 2, 9}, bytes, kServer); }
  void send(ConKey key, const Message& bytes) { peer_.send(key, bytes); }
  void write(ConKey key, std::uint32_t imm, const Message& bytes) {
    peer_.write_imm(key, imm, bytes, chunk_);
  }

  // `quiet`: the server need not answer the message.
  void expect_answered_and_closed(bool quiet) {
    const std::size_t before = answers();
    const bool answered = world_.run_until([&] { return answers() > before; }, kBound);
    EXPECT_TRUE(answered || quiet);
    leave();
    EXPECT_TRUE(world_.run_until([this] { return server_.session_count() == 1; }));
    expect_correct_client_served();
  }

  static Message write_request(std::uint32_t user_at) {
    Message bytes(user_at + 32 + wire::kWriteHeaderBytes);
    wire::IoRequest header;
    header.usr_len = 32;
    EXPECT_EQ(wire::encode(header, std::span(bytes).subspan(user_at + 32)), wire::kWriteHeaderBytes);
    return bytes;
  }

 private:
  static ServerConfig config() {
    ServerConfig made;
    made.queue_depth = 8;
    made.chunk_size = kChunk;
    made.send_depth = 64;
    return made;
  }
  static ClientOptions options() {
    ClientOptions made;
    made.session_name = "honest";
    made.paths = {PathAddress{"n2.p0", "n1.p0", 1234}};
    made.session_uuid = uuid(0x55);
    for (std::uint8_t i = 0; i < kMaxPaths; ++i)
      made.path_uuids.push_back(uuid(static_cast<std::uint8_t>(0x60 + i)));
    made.protocol.send_depth = 64;
    return made;
  }
  void step(Nanos now) {
    std::array<ServerEvent, 16> events;
    const std::size_t count = server_.poll(server_fabric_, now, events);
    for (const ServerEvent& event : std::span(events).first(count)) {
      if (event.kind != ServerEvent::Kind::request) continue;
      if (hold_) {
        held_.push_back(event.id);
      } else {
        server_.respond(server_fabric_, now, event.id, 0);
      }
    }
    peer_.poll();
    std::array<IoCompletion, 8> done;
    const std::size_t ended = correct_client_.poll(correct_fabric_, now, done);
    for (const IoCompletion& one : std::span(done).first(ended))
      correct_client_ok_ += one.result == Errc::ok ? 1 : 0;
    if (world_.network.has_events(third_)) world_.network.run_until(now, world_.choice);
  }
  unsigned count(SeenEvent::Kind kind) const { return peer_.count(kind); }
  // Number of events that the server caused at the misbehaving client, except heartbeats.
  std::size_t answers() const {
    return static_cast<std::size_t>(
        std::count_if(peer_.seen.begin(), peer_.seen.end(), [](const SeenEvent& event) {
          switch (event.kind) {
            case SeenEvent::Kind::connected:
            case SeenEvent::Kind::connect_failed:
            case SeenEvent::Kind::message_received:
            case SeenEvent::Kind::connection_lost:
              return true;
            case SeenEvent::Kind::imm_received:
              return wire::imm_type(event.imm) != wire::ImmType::hb_msg;
            default:
              return false;
          }
        }));
  }
  void leave() {
    for (const RequestId& id : held_) server_.respond(server_fabric_, world_.network.now(), id, 0);
    held_.clear();
    for (const ConKey key : {kService, kIo, ConKey{0, 2, 9}}) peer_.fabric.disconnect(key);
  }
  void expect_correct_client_served() {
    std::vector<std::byte> data(4096);
    IoRequest io;
    io.direction = Direction::write;
    io.data = data;
    ASSERT_EQ(correct_client_.submit(correct_fabric_, world_.network.now(), io), Errc::ok);
    EXPECT_TRUE(world_.run_until([this] { return correct_client_ok_ == 1; }));
    EXPECT_EQ(correct_client_.paths()[0].reconnects, 0U);
    EXPECT_EQ(correct_client_.broken_invariant(), nullptr);
    correct_client_.close(correct_fabric_, world_.network.now());
    EXPECT_TRUE(
        world_.run_until([this] { return correct_client_.closed() && server_.session_count() == 0; }));
    const auto holds = [](const sim::WatchedFabric& fabric) { return sim::to_string(fabric.holdings()); };
    EXPECT_EQ(holds(server_fabric_), sim::to_string(sim::Holdings{})) << "resources are leaked";
    EXPECT_EQ(holds(correct_fabric_), sim::to_string(sim::Holdings{}));
  }

  World world_;
  sim::SimFabric server_sim_;
  RawPeer peer_;
  sim::NodeId third_;
  sim::SimFabric correct_sim_;
  // Needed only to construct WatchedFabric, whose holdings() show leaks. Other tests judge heartbeats.
  sim::Judge unused_;
  sim::HeartbeatWatch server_heartbeats_{unused_, HeartbeatConfig{}};
  sim::HeartbeatWatch correct_heartbeats_{unused_, HeartbeatConfig{}};
  sim::WatchedFabric server_fabric_{server_sim_, server_heartbeats_, sim::ClockRate{}};
  sim::WatchedFabric correct_fabric_{correct_sim_, correct_heartbeats_, sim::ClockRate{}};
  Server server_;
  Client correct_client_;
  wire::Descriptor chunk_;
  bool hold_ = false;
  std::vector<RequestId> held_;
  unsigned correct_client_ok_ = 0;
};

// Sends one invalid message in one state.
template <class Tell>
void play(State state, const std::string& name, bool quiet, const Tell& tell) {
  SCOPED_TRACE("state " + std::to_string(static_cast<int>(state)) + ", " + name);
  Scene scene;
  scene.advance_to(state);
  if (testing::Test::HasFatalFailure()) return;
  tell(scene);
  scene.expect_answered_and_closed(quiet);
}

TEST(EveryInvalidClientMessage, InConReq) {
  const auto all = lies(con_req_of(1), {{"reserved", 0, 2},
                                        {"magic", 2, 2},
                                        {"version", 4, 2},
                                        {"cid", 6, 2},
                                        {"cid_num", 8, 2},
                                        {"recon_cnt", 10, 2},
                                        {"sess_uuid", 12, 8},
                                        {"paths_uuid", 28, 8},
                                        {"first_conn", 44, 1},
                                        {"extensions", 45, 1},
                                        {"padding", 46, 8}});
  EXPECT_GE(all.size(), 60U);
  for (const State state : kEveryState)
    for (const Lie& lie : all) play(state, lie.name, false, [&](Scene& scene) { scene.connect(lie.bytes); });
}

TEST(EveryInvalidClientMessage, InInfoReq) {
  for (const State state : kWithConnections) {
    for (const Lie& lie :
         lies(info_req(), {{"type", 0, 2}, {"name", 2, 1}, {"name_end", 256, 1}, {"tail", 264, 8}})) {
      play(state, lie.name, false, [&](Scene& scene) { scene.send(kService, lie.bytes); });
      // Before INFO_REQ the server has no receives on this connection, so the message waits until the path
      // ends.
      if (state == State::one_connection) continue;
      play(state, lie.name + ", other connection", state == State::all_connections,
           [&](Scene& scene) { scene.send(kIo, lie.bytes); });
    }
    play(state, "twice", false, [](Scene& scene) {
      scene.send(kService, info_req());
      scene.send(kService, info_req());
    });
  }
}

TEST(EveryInvalidClientMessage, InFenceReq) {
  Message honest(wire::kFenceBytes);
  wire::FenceReq fence;
  fence.serial = 7;
  fence.recon_cnt = 1;
  fence.path = uuid(0x77);
  ASSERT_EQ(wire::encode(fence, honest), honest.size());
  for (const State state : kWithConnections) {
    for (const Lie& lie :
         lies(honest, {{"type", 0, 2}, {"recon_cnt", 2, 2}, {"serial", 4, 4}, {"path", 8, 8}}))
      play(state, lie.name, false, [&](Scene& scene) { scene.send(kService, lie.bytes); });
    // Sends a fence for the path that carries the message, then a fence on the wrong connection.
    Message own = honest;
    std::fill(own.begin() + 8, own.end(), std::byte{0x11});
    play(state, "own path", false, [&](Scene& scene) { scene.send(kService, own); });
    // Before INFO_REQ the server has no receives on this connection, so the message waits until the path
    // ends.
    if (state != State::one_connection)
      play(state, "other connection", state == State::all_connections,
           [&](Scene& scene) { scene.send(kIo, honest); });
  }
}

TEST(EveryInvalidClientMessage, InTheImmediate) {
  Jitter random(3);
  std::vector<std::uint32_t> all;
  for (std::uint32_t type = 0; type < 16; ++type)
    for (const std::uint32_t payload : {0U, 1U, wire::kImmPayloadMask, 16384U, 1U << 25, 7U << 25,
                                        static_cast<std::uint32_t>(random.up_to(wire::kImmPayloadMask))})
      all.push_back(type << wire::kImmPayloadBits | payload);
  for (const State state : kWithConnections) {
    for (const std::uint32_t imm : all) {
      const bool quiet = wire::imm_type(imm) == wire::ImmType::hb_ack;
      play(state, "imm " + std::to_string(imm), quiet, [&](Scene& scene) { scene.write(kService, imm, {}); });
      if (state == State::one_connection) continue;
      play(state, "other connection, imm " + std::to_string(imm), true,
           [&](Scene& scene) { scene.write(kIo, imm, {}); });
    }
  }
}

void play_requests(std::uint32_t user_at, const Message& honest, std::initializer_list<Field> fields) {
  const std::uint32_t imm = wire::encode_io_req(8, 0, user_at + 32);
  for (const State state : {State::connected, State::serving}) {
    for (const ConKey key : {kIo, kService}) {
      for (const Lie& lie : lies(honest, fields))
        play(state, lie.name, false, [&](Scene& scene) { scene.write(key, imm, lie.bytes); });
    }
  }
}

TEST(EveryInvalidClientMessage, InAWriteHeader) {
  play_requests(64, Scene::write_request(64), {{"type", 96, 2}, {"usr_len", 98, 2}});
}

TEST(EveryInvalidClientMessage, InAReadHeader) {
  Message honest(64 + 32 + 24);
  wire::IoRequest header;
  header.direction = Direction::read;
  header.usr_len = 32;
  header.need_inval = header.has_descriptor = true;
  header.desc = {4096, 99, 512};
  ASSERT_EQ(wire::encode(header, std::span(honest).subspan(96)), 24U);
  play_requests(64, honest,
                {{"type", 96, 2},
                 {"usr_len", 98, 2},
                 {"flags", 100, 2},
                 {"sg_cnt", 102, 2},
                 {"addr", 104, 8},
                 {"key", 112, 4},
                 {"len", 116, 4}});
}

}  // namespace
}  // namespace rtrs::hostile::every_invalid_client_message_test
