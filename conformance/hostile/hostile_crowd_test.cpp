// Clients that are too slow, too many, or use the same identity: other clients must be served, limits must
// hold, and no resource may be leaked.
#include <algorithm>
#include <memory>

#include "conformance/hostile/test_hostile.hpp"
#include "sim/world/watched_fabric.hpp"

namespace rtrs::hostile::hostile_crowd_test {
namespace {

constexpr std::uint32_t kChunk = 8192;

// A server, correct clients on separate nodes, and a misbehaving client on node 0.
class HostileCrowdTest : public testing::Test {
 protected:
  class TestEndpoint {
   public:
    TestEndpoint(HostileCrowdTest& test, sim::NodeId node) : sim(test.network, node, test.choice) {}
    sim::SimFabric sim;
    sim::Judge unused;
    sim::HeartbeatWatch hearts{unused, HeartbeatConfig{}};
    sim::WatchedFabric fabric{sim, hearts, sim::ClockRate{}};  // holdings() shows leaks
  };
  struct CorrectClient : TestEndpoint {
    CorrectClient(HostileCrowdTest& test, const ClientOptions& options)
        : TestEndpoint(test, test.network.add_node()), client(options, nullptr) {}
    Client client;
    unsigned answered = 0, ok = 0;
  };

  // Options with `paths` paths from a new node. Two clients with the same `identity` have the same UUIDs.
  ClientOptions options(std::uint16_t identity, unsigned paths) {
    ClientOptions made;
    made.session_name = "client" + std::to_string(identity);
    const std::string node = "n" + std::to_string(network.node_count());
    for (unsigned path = 0; path < paths; ++path) {
      const std::string port = ".p" + std::to_string(path);
      made.paths.push_back(PathAddress{node + port, "n1" + port, 1234});
    }
    const auto numbered = [identity](std::uint8_t what) {
      wire::Uuid one = uuid(what);
      one.bytes[0] = static_cast<std::uint8_t>(identity);
      one.bytes[1] = static_cast<std::uint8_t>(identity >> 8);
      return one;
    };
    made.session_uuid = numbered(1);
    for (std::uint8_t i = 0; i < kMaxPaths; ++i)
      made.path_uuids.push_back(numbered(static_cast<std::uint8_t>(2 + i)));
    made.protocol.con_num = 2;
    made.protocol.send_depth = 8;
    return made;
  }
  void start(std::uint16_t max_sessions, std::uint16_t max_half_open = 16) {
    network.add_node();
    server_endpoint = std::make_unique<TestEndpoint>(*this, network.add_node());
    hostile_fabric = std::make_unique<sim::SimFabric>(network, 0, choice);
    ServerConfig config;
    config.queue_depth = 2;
    config.chunk_size = kChunk;
    config.send_depth = 8;
    config.max_sessions = max_sessions;
    config.max_half_open = max_half_open;
    server = std::make_unique<Server>(clamp_to(config, network.capabilities()), nullptr);
    ASSERT_EQ(server->listen(server_endpoint->fabric, 0, PathAddress{}), Errc::ok);
  }
  CorrectClient& join(const ClientOptions& how) {
    clients.push_back(std::make_unique<CorrectClient>(*this, how));
    EXPECT_EQ(clients.back()->client.open(clients.back()->fabric, network.now()), Errc::ok);
    return *clients.back();
  }
  void write(CorrectClient& one) {
    IoRequest io;
    io.direction = Direction::write;
    io.data = data;
    EXPECT_EQ(one.client.submit(one.fabric, network.now(), io), Errc::ok);
  }
  bool is_whole(const CorrectClient& one) const {
    const auto paths = one.client.paths();
    return std::all_of(paths.begin(), paths.end(), [](const auto& path) {
      return path.state == PathState::connected || path.state == PathState::absent;
    });
  }
  void leave(CorrectClient& one) { one.client.close(one.fabric, network.now()); }

  void connect(ConKey key, const Message& bytes) {
    hostile_fabric->connect(key, PathAddress{"n0.p0", "n1.p0", 1234}, ConnectionParams{64, 64}, bytes);
  }
  unsigned event_count(SeenEvent::Kind kind) const {
    return static_cast<unsigned>(std::count(hostile_events.begin(), hostile_events.end(), kind));
  }

  void poll_all() {
    const Nanos now = network.now();
    std::array<ServerEvent, 64> events;
    const std::size_t count = server->poll(server_endpoint->fabric, now, events);
    for (const ServerEvent& event : std::span(events).first(count)) {
      if (event.kind == ServerEvent::Kind::request)
        server->respond(server_endpoint->fabric, now, event.id, 0);
    }
    for (const auto& one : clients) {
      std::array<IoCompletion, 8> done;
      const std::size_t ended = one->client.poll(one->fabric, now, done);
      one->answered += static_cast<unsigned>(ended);
      for (const IoCompletion& io : std::span(done).first(ended)) one->ok += io.result == Errc::ok ? 1 : 0;
      ASSERT_EQ(one->client.broken_invariant(), nullptr);
    }
    std::array<FabricEvent, 32> fabric_events;
    const std::size_t received = hostile_fabric->poll(now, fabric_events);
    for (const FabricEvent& event : std::span(fabric_events).first(received))
      hostile_events.push_back(test::seen(event).kind);
  }
  bool run_until(const std::function<bool()>& done, Nanos limit = seconds(120)) {
    const Nanos end = network.now() + limit;
    for (unsigned turn = 0; turn < 2'000'000; ++turn) {
      poll_all();
      if (done()) return true;
      bool busy = false;
      Nanos next = std::min(network.next_time(), server->next_deadline());
      for (const auto& one : clients) next = std::min(next, one->client.next_deadline());
      for (sim::NodeId node = 0; node < network.node_count(); ++node) busy |= network.has_events(node);
      if (busy) continue;
      next = std::max(network.now(), next);
      network.run_until(std::min(next, end), choice);
      if (next > end) return false;
    }
    return false;
  }
  void pass(Nanos time) {
    run_until([] { return false; }, time);
  }
  void expect_nothing_left() {
    for (const auto& one : clients) leave(*one);
    EXPECT_TRUE(run_until([this] {
      return server->session_count() == 0 && std::all_of(clients.begin(), clients.end(), [](const auto& one) {
               return one->client.closed();
             });
    }));
    const std::string nothing = sim::to_string(sim::Holdings{});
    EXPECT_EQ(sim::to_string(server_endpoint->fabric.holdings()), nothing);
    for (const auto& one : clients) EXPECT_EQ(sim::to_string(one->fabric.holdings()), nothing);
  }

  sim::ZeroChoice choice;
  sim::Network network;
  std::unique_ptr<TestEndpoint> server_endpoint;
  std::unique_ptr<Server> server;
  std::unique_ptr<sim::SimFabric> hostile_fabric;
  std::vector<SeenEvent::Kind> hostile_events;
  std::vector<std::unique_ptr<CorrectClient>> clients;
  std::vector<std::byte> data = std::vector<std::byte>(4096);
};

TEST_F(HostileCrowdTest, R01NewConnectionsDoNotExtendTheHandshakeTimeout) {
  start(8);
  for (std::uint16_t cid = 0; cid < 3; ++cid) {
    Message request = conn_req(cid);
    wire::store_le16(request, 8, 5);  // number of connections of the path
    connect({0, cid, 1}, request);
    EXPECT_TRUE(run_until([&] { return event_count(SeenEvent::Kind::connected) == cid + 1U; }, seconds(2)));
    pass(seconds(14));
    EXPECT_EQ(server->session_count(), cid < 2 ? 1U : 0U) << "30 s from the first connection on";
  }
  EXPECT_EQ(event_count(SeenEvent::Kind::connection_lost), 3U);
  for (std::uint16_t cid = 0; cid < 3; ++cid) hostile_fabric->disconnect({0, cid, 1});
  expect_nothing_left();
}

TEST_F(HostileCrowdTest, R26SessionsTakenByOneClientAreFreedSoon) {
  start(4);
  CorrectClient& early = join(options(1, 2));
  EXPECT_TRUE(run_until([&] { return is_whole(early) && early.client.link_up(); }));
  for (std::uint8_t session = 0; session < 8; ++session)
    connect({0, session, 1}, conn_req(0, static_cast<std::uint8_t>(0x40 + session),
                                      static_cast<std::uint8_t>(0x60 + session)));
  pass(seconds(2));
  EXPECT_GE(event_count(SeenEvent::Kind::connected), 3U);
  EXPECT_GE(event_count(SeenEvent::Kind::connect_failed), 1U);
  CorrectClient& late = join(options(2, 2));
  write(early);
  EXPECT_TRUE(run_until([&] { return early.ok == 1; }, seconds(2)));
  // Unused half-open sessions must be closed to make room, long before the handshake timeout.
  EXPECT_TRUE(run_until([&] { return late.client.link_up(); }, seconds(5)));
  write(late);
  EXPECT_TRUE(run_until([&] { return late.ok == 1; }, seconds(2)));
  EXPECT_EQ(early.client.paths()[0].reconnects, 0U);
  for (std::uint8_t session = 0; session < 8; ++session) hostile_fabric->disconnect({0, session, 1});
  expect_nothing_left();
}

TEST_F(HostileCrowdTest, R17ConnectRequestAloneAllocatesNoChunks) {
  start(8);
  for (std::uint8_t session = 0; session < 4; ++session)
    connect({0, session, 1}, conn_req(0, static_cast<std::uint8_t>(0x40 + session),
                                      static_cast<std::uint8_t>(0x60 + session)));
  pass(seconds(2));
  EXPECT_EQ(server->session_count(), 4U);
  EXPECT_EQ(server_endpoint->fabric.holdings().regions, 0);
  CorrectClient& honest = join(options(1, 1));
  EXPECT_TRUE(run_until([&] { return is_whole(honest) && honest.client.link_up(); }));
  EXPECT_EQ(server_endpoint->fabric.holdings().regions, 1);
  for (std::uint8_t session = 0; session < 4; ++session) hostile_fabric->disconnect({0, session, 1});
  expect_nothing_left();
}

TEST_F(HostileCrowdTest, EachEvictedSessionIsCountedOnce) {
  start(16, 4);
  for (std::uint8_t session = 0; session < 6; ++session) {
    connect({0, session, 1}, conn_req(0, static_cast<std::uint8_t>(0x40 + session),
                                      static_cast<std::uint8_t>(0x60 + session)));
    pass(milliseconds(100));
    EXPECT_EQ(server->stats().crowded_out, session < 4U ? 0U : session - 3U);
  }
  CorrectClient& honest = join(options(1, 1));
  EXPECT_TRUE(run_until([&] { return is_whole(honest) && honest.client.link_up(); }));
  leave(honest);
  EXPECT_TRUE(run_until([&] { return honest.client.closed(); }));
  EXPECT_EQ(server->stats().crowded_out, 2U) << "sessions that end for other reasons are not counted";
  for (std::uint8_t session = 0; session < 6; ++session) hostile_fabric->disconnect({0, session, 1});
  expect_nothing_left();
}

// One address sends connect requests without end, 20 for each attempt of a correct client.
TEST_F(HostileCrowdTest, R26HalfOpenSessionsBlockNoClient) {
  start(16, 4);
  std::vector<CorrectClient*> honest;
  std::uint16_t epoch = 0;
  for (std::uint16_t round = 0; round < 200; ++round) {
    const auto number = static_cast<std::uint8_t>(round);
    connect({0, round, ++epoch}, conn_req(0, number, static_cast<std::uint8_t>(~number)));
    if (round % 20 == 10) honest.push_back(&join(options(static_cast<std::uint16_t>(round), 2)));
    pass(milliseconds(25));
    EXPECT_LE(server->session_count(), 16U);
  }
  for (CorrectClient* one : honest) {
    EXPECT_TRUE(run_until([&] { return is_whole(*one) && one->client.link_up(); }, seconds(5)));
    write(*one);
    EXPECT_TRUE(run_until([&] { return one->ok == 1; }, seconds(2)));
    EXPECT_EQ(one->client.paths()[0].reconnects, 0U);
  }
  EXPECT_GT(server->stats().crowded_out, 100U);
  for (std::uint16_t round = 0; round < 200; ++round) hostile_fabric->disconnect({0, round, round + 1U});
  expect_nothing_left();
}

TEST_F(HostileCrowdTest, TwoClientsWithOneIdentityAffectOnlyEachOther) {
  start(8);
  CorrectClient& bystander = join(options(1, 2));
  CorrectClient& first = join(options(7, 2));
  EXPECT_TRUE(run_until([&] { return is_whole(first) && is_whole(bystander); }));
  CorrectClient& twin = join(options(7, 2));  // a cloned machine with the same UUIDs
  unsigned submitted = 0;
  for (; submitted < 30; ++submitted) {
    write(bystander);
    if (submitted % 3 == 0) write(first);
    EXPECT_TRUE(run_until([&] { return bystander.ok == submitted + 1; }, seconds(2)));
    pass(seconds(2));
  }
  EXPECT_EQ(bystander.client.paths()[0].reconnects, 0U);
  EXPECT_EQ(bystander.client.paths()[1].reconnects, 0U);
  // After one of the twins has closed, the other works normally.
  leave(twin);
  EXPECT_TRUE(run_until([&] { return twin.client.closed() && is_whole(first) && first.client.link_up(); }));
  const unsigned before = first.answered;
  write(first);
  EXPECT_TRUE(run_until([&] { return first.answered > before && first.client.inflight() == 0; }));
  EXPECT_GT(first.ok, 0U);
  expect_nothing_left();
}

TEST_F(HostileCrowdTest, TwoHundredSessionsOfFourPathsOpenAndClose) {
  constexpr unsigned kClients = 200;
  start(kClients);
  for (std::uint16_t i = 0; i < kClients; ++i) join(options(i, 4));
  EXPECT_TRUE(run_until([this] {
    return std::all_of(clients.begin(), clients.end(), [this](const auto& one) { return is_whole(*one); });
  }));
  EXPECT_EQ(server->session_count(), kClients);
  for (const auto& one : clients) write(*one);
  EXPECT_TRUE(run_until([this] {
    return std::all_of(clients.begin(), clients.end(), [](const auto& one) { return one->ok == 1; });
  }));
  for (unsigned i = 0; i < kClients; i += 2) leave(*clients[i]);
  EXPECT_TRUE(run_until([this] { return server->session_count() == kClients / 2; }));
  for (unsigned i = 1; i < kClients; i += 2) EXPECT_EQ(clients[i]->client.paths()[3].reconnects, 0U);
  expect_nothing_left();
}

}  // namespace
}  // namespace rtrs::hostile::hostile_crowd_test
