// Sends every kind of invalid server message in every state of the path. The client must ignore the message,
// or close the path and reconnect to a correct server. Every request must complete once, and the session must
// be closable.
#include <map>

#include "conformance/hostile/message_variants.hpp"
#include "sim/world/watched_fabric.hpp"

namespace rtrs::hostile::every_invalid_server_message_test {
namespace {

constexpr std::uint32_t kChunk = 16384;
constexpr std::uint16_t kDepth = 8;
// Longer than reconnect delays, heartbeat timeouts and the queue timeout together.
constexpr Nanos kBound = seconds(300);

enum class When { connecting_first, connecting_other, rejecting, informing };

// A client, and a server that sends one invalid message.
class Scene {
 public:
  explicit Scene(std::uint32_t flags)
      : client_sim_(world_.network, 0, world_.choice),
        peer_(world_, 1),
        client_(options(), nullptr),
        flags_(flags) {
    EXPECT_EQ(peer_.fabric.listen(PathAddress{"", "n1.p0", 1234}), Errc::ok);
    world_.step = [this](Nanos now) { step(now); };
    world_.deadline = [this] { return client_.next_deadline(); };
  }

  // Sends the invalid message in the handshake of the first connect, or of a reconnect.
  void send_invalid_in_handshake(When when, const Message& bytes, bool reconnect) {
    if (reconnect) connect();
    invalid_message_ = bytes;
    when_ = when;
    invalid_messages_left_ = 1;
    if (reconnect) {
      submit();
      EXPECT_EQ(client_.reconnect_path(client_fabric_, world_.network.now(), 0), Errc::ok);
    } else {
      EXPECT_EQ(client_.open(client_fabric_, 0), Errc::ok);
    }
    EXPECT_TRUE(world_.run_until([this] { return invalid_messages_left_ == 0; }));
  }
  void connect() {
    EXPECT_EQ(client_.open(client_fabric_, 0), Errc::ok);
    EXPECT_TRUE(world_.run_until([this] { return client_.link_up(); }));
  }
  // Submits a request that the server does not answer before it has sent the invalid message.
  void submit_and_hold() {
    hold_ = true;
    submit();
    EXPECT_TRUE(world_.run_until([this] { return !held_.empty(); }));
  }
  void write(std::uint16_t cid, std::uint32_t imm) { peer_.write_imm(keys_.at(cid), imm); }
  void send(std::uint16_t cid, const Message& bytes, std::optional<std::uint32_t> imm = {}) {
    peer_.send(keys_.at(cid), bytes, imm);
  }

  void expect_recovers() {
    world_.run_until([] { return false; }, seconds(3));
    hold_ = false;
    for (const auto& [key, imm] : std::exchange(held_, {})) answer(key, imm);
    const auto settled = [this] {
      return completions_ == submitted_ && (client_.link_up() || has_other_depth());
    };
    EXPECT_TRUE(world_.run_until(settled, kBound));
    if (client_.link_up()) {
      submit();
      EXPECT_TRUE(world_.run_until(settled, kBound));
      EXPECT_EQ(completions_, submitted_);
      EXPECT_TRUE(client_.link_up() || has_other_depth());
    }
    close();
    expect_closed();
  }
  // True if the session has a wrong queue depth since the invalid message, so that later attempts are
  // refused.
  bool has_other_depth() { return client_.paths()[0].reason == Reason::depth_changed; }
  void close() { client_.close(client_fabric_, world_.network.now()); }
  // Expects that a closing session still closes.
  void expect_ends() {
    world_.run_until([] { return false; }, seconds(3));
    hold_ = false;
    for (const auto& [key, imm] : std::exchange(held_, {})) answer(key, imm);
    expect_closed();
  }

  static Message con_rsp(std::uint32_t flags, std::int16_t error = 0) {
    wire::ConnRsp rsp;
    rsp.error = error;
    rsp.queue_depth = kDepth;
    rsp.max_io_size = kChunk - 4096;
    rsp.max_hdr_size = 4096;
    rsp.flags = flags;
    Message bytes(wire::kConnRspBytes);
    EXPECT_EQ(wire::encode(rsp, bytes), bytes.size());
    return bytes;
  }
  static Message info_rsp(const RemoteKey& remote_key) {
    const wire::Descriptor run{remote_key.remote_addr, remote_key.rkey, kDepth * kChunk};
    Message bytes(wire::info_rsp_bytes(1));
    EXPECT_EQ(wire::encode_info_rsp(std::span(&run, 1), bytes), bytes.size());
    return bytes;
  }
  static Message rkey_rsp(std::uint16_t chunk, std::uint32_t key) {
    Message bytes(wire::kRkeyRspBytes);
    EXPECT_EQ(wire::encode(wire::RkeyRsp{chunk, key}, bytes), bytes.size());
    return bytes;
  }

 private:
  static ClientOptions options() {
    ClientOptions made;
    made.session_name = "victim";
    made.paths = {PathAddress{"n0.p0", "n1.p0", 1234}};
    made.session_uuid = uuid(1);
    for (std::uint8_t i = 0; i < kMaxPaths; ++i)
      made.path_uuids.push_back(uuid(static_cast<std::uint8_t>(2 + i)));
    made.protocol.con_num = 2;
    made.protocol.send_depth = 64;
    // If the invalid response grants `generation` but later responses carry none, the client ignores them
    // like stale responses. The client detects the error only because the invalid response also grants new
    // chunk keys, which the later responses do not contain. With data_with_answer, responses need not renew
    // keys, so the client would wait forever.
    made.protocol.extensions &= ~wire::Extensions::data_with_answer;
    return made;
  }
  void expect_closed() {
    EXPECT_TRUE(world_.run_until([this] { return client_.closed(); }));
    EXPECT_EQ(completions_, submitted_);
    EXPECT_EQ(client_.inflight(), 0U);
    EXPECT_EQ(sim::to_string(client_fabric_.holdings()), sim::to_string(sim::Holdings{}));
  }
  void step(Nanos now) {
    std::array<IoCompletion, 8> done;
    completions_ += client_.poll(client_fabric_, now, done);
    EXPECT_EQ(client_.broken_invariant(), nullptr);
    const std::size_t before = peer_.seen.size();
    peer_.poll();
    for (std::size_t i = before; i < peer_.seen.size(); ++i) serve(peer_.seen[i]);
  }
  bool must_send_invalid(When when) {
    if (invalid_messages_left_ == 0 || when_ != when) return false;
    invalid_messages_left_ = 0;
    return true;
  }
  void serve(const SeenEvent& event) {
    switch (event.kind) {
      case SeenEvent::Kind::connect_requested:
        return serve_connect(event);
      case SeenEvent::Kind::message_received:
        if (chunks_.id == kNoRegion) chunks_ = *peer_.fabric.allocate(kDepth * kChunk);
        remote_key_ = *peer_.fabric.make_key(chunks_.id, 0, chunks_.bytes.size());
        return peer_.send(event.key,
                          must_send_invalid(When::informing) ? invalid_message_ : info_rsp(remote_key_));
      case SeenEvent::Kind::imm_received:
        if (wire::imm_type(event.imm) == wire::ImmType::hb_msg)
          return peer_.write_imm(event.key, wire::encode_hb(wire::ImmType::hb_ack));
        if (wire::imm_type(event.imm) != wire::ImmType::io_req) return;
        if (hold_) {
          held_.emplace_back(event.key, event.imm);
        } else {
          answer(event.key, event.imm);
        }
        return;
      case SeenEvent::Kind::connection_lost:
        std::erase_if(keys_, [&](const auto& one) { return one.second == event.key; });
        return;
      default:
        return;
    }
  }
  void serve_connect(const SeenEvent& event) {
    const auto request = wire::parse_conn_req(event.bytes());
    ASSERT_TRUE(request);
    if (must_send_invalid(When::rejecting)) return peer_.fabric.reject(event.request, invalid_message_);
    const std::uint16_t cid = request.value.cid;
    const ConKey key{0, cid, ++epoch_};
    keys_[cid] = key;
    const bool lie = must_send_invalid(cid == 0 ? When::connecting_first : When::connecting_other);
    peer_.fabric.accept(event.request, key, ConnectionParams{64, 256},
                        lie ? invalid_message_ : con_rsp(flags_));
    peer_.fabric.post_receive(key, 64, 512);
  }
  void answer(ConKey key, std::uint32_t request) {
    const auto current = keys_.find(key.con);
    if (current == keys_.end() || current->second != key) return;
    const auto place = wire::check_io_req(kDepth, kChunk, request);
    ASSERT_TRUE(place);
    const std::uint32_t chunk = place.value.buf_id;
    const std::uint32_t imm = wire::encode_io_rsp(wire::ImmType::io_rsp, chunk, 0);
    if ((flags_ & wire::kConnRspNewRkey) != 0) {
      peer_.send(key, rkey_rsp(static_cast<std::uint16_t>(chunk), remote_key_.rkey), imm);
    } else {
      peer_.write_imm(key, imm);
    }
  }
  void submit() {
    IoRequest io;
    io.direction = Direction::write;
    io.data = data_;
    EXPECT_EQ(client_.submit(client_fabric_, world_.network.now(), io), Errc::ok);
    ++submitted_;
  }

  World world_;
  sim::SimFabric client_sim_;
  // Needed only to construct WatchedFabric, whose holdings() show leaks. Other tests judge heartbeats.
  sim::Judge unused_;
  sim::HeartbeatWatch heartbeat_watch_{unused_, HeartbeatConfig{}};
  sim::WatchedFabric client_fabric_{client_sim_, heartbeat_watch_, sim::ClockRate{}};
  RawPeer peer_;
  Client client_;
  std::uint32_t flags_;
  Region chunks_;
  RemoteKey remote_key_{};
  std::map<std::uint16_t, ConKey> keys_;  // established connections by cid
  std::uint32_t epoch_ = 0;
  Message invalid_message_;
  When when_ = When::informing;
  unsigned invalid_messages_left_ = 0;
  bool hold_ = false;
  std::vector<std::pair<ConKey, std::uint32_t>> held_;
  std::vector<std::byte> data_ = std::vector<std::byte>(4096);
  std::size_t submitted_ = 0;
  std::size_t completions_ = 0;
};

void play_handshake(When when, const Message& honest, std::initializer_list<Field> fields) {
  for (const bool reconnect : {false, true}) {
    for (const Lie& lie : lies(honest, fields)) {
      SCOPED_TRACE(lie.name + (reconnect ? ", reconnecting" : ", connecting"));
      Scene scene(0);
      scene.send_invalid_in_handshake(when, lie.bytes, reconnect);
      scene.expect_recovers();
    }
  }
}

TEST(EveryInvalidServerMessage, InConRsp) {
  for (const When when : {When::connecting_first, When::connecting_other}) {
    play_handshake(when, Scene::con_rsp(0),
                   {{"magic", 0, 2},
                    {"version", 2, 2},
                    {"errno", 4, 2},
                    {"queue_depth", 6, 2},
                    {"max_io_size", 8, 4},
                    {"max_hdr_size", 12, 4},
                    {"flags", 16, 4},
                    {"reserved", 20, 8}});
  }
}

TEST(EveryInvalidServerMessage, InAReject) {
  play_handshake(When::rejecting, Scene::con_rsp(0, -16),
                 {{"magic", 0, 2}, {"version", 2, 2}, {"errno", 4, 2}});
}

TEST(EveryInvalidServerMessage, InInfoRsp) {
  play_handshake(
      When::informing, Scene::info_rsp(RemoteKey{}),
      {{"type", 0, 2}, {"sg_cnt", 2, 2}, {"reserved", 4, 4}, {"addr", 8, 8}, {"key", 16, 4}, {"len", 20, 4}});
}

enum class Moment { idle, in_flight, closing };

// Runs `tell` on a connected path: while it is idle, with a request in flight, and while the session closes
// with a request in flight.
template <class Tell>
void play_connected(const std::string& name, const Tell& tell) {
  for (const std::uint32_t flags : {0U, wire::kConnRspNewRkey}) {
    for (const Moment moment : {Moment::idle, Moment::in_flight, Moment::closing}) {
      for (const std::uint16_t cid : {std::uint16_t{0}, std::uint16_t{1}}) {
        SCOPED_TRACE(name + ", moment " + std::to_string(static_cast<int>(moment)) + ", cid " +
                     std::to_string(cid) + ", flags " + std::to_string(flags));
        Scene scene(flags);
        scene.connect();
        if (moment != Moment::idle) scene.submit_and_hold();
        if (moment == Moment::closing) scene.close();
        tell(scene, cid);
        if (moment == Moment::closing) {
          scene.expect_ends();
        } else {
          scene.expect_recovers();
        }
      }
    }
  }
}

TEST(EveryInvalidServerMessage, InTheImmediate) {
  Jitter random(5);
  for (std::uint32_t type = 0; type < 16; ++type) {
    for (const std::uint32_t payload :
         {0U, 1U, kDepth - 1U, 0U + kDepth, wire::kMsgIdMask, wire::kImmPayloadMask, 5U << wire::kMsgIdBits,
          static_cast<std::uint32_t>(random.up_to(wire::kImmPayloadMask))}) {
      const std::uint32_t imm = type << wire::kImmPayloadBits | payload;
      play_connected("imm " + std::to_string(imm),
                     [&](Scene& scene, std::uint16_t cid) { scene.write(cid, imm); });
    }
  }
}

TEST(EveryInvalidServerMessage, InRkeyRsp) {
  for (const Lie& lie : lies(Scene::rkey_rsp(0, 99), {{"type", 0, 2}, {"buf_id", 2, 2}, {"rkey", 4, 4}})) {
    for (const std::uint32_t id : {0U, 1U, 0U + kDepth}) {
      const std::uint32_t imm = wire::encode_io_rsp(wire::ImmType::io_rsp, id, 0);
      play_connected(lie.name + ", id " + std::to_string(id),
                     [&](Scene& scene, std::uint16_t cid) { scene.send(cid, lie.bytes, imm); });
    }
  }
}

TEST(EveryInvalidServerMessage, InFenceRsp) {
  Message honest(wire::kFenceBytes);
  ASSERT_EQ(wire::encode(wire::FenceRsp{0, 1, uuid(3)}, honest), honest.size());
  for (const Lie& lie : lies(honest, {{"type", 0, 2}, {"errno", 2, 2}, {"serial", 4, 4}, {"path", 8, 8}}))
    play_connected(lie.name, [&](Scene& scene, std::uint16_t cid) { scene.send(cid, lie.bytes); });
}

}  // namespace
}  // namespace rtrs::hostile::every_invalid_server_message_test
