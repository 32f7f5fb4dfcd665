// Randomised test by seed: adapters complete work in any order, and every possible event and failure occurs.
#include <cinttypes>
#include <cstdio>
#include <map>
#include <random>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::hostile_test {
namespace {

using Kind = SeenEvent::Kind;

// Seeds to run; URTRS_HOSTILE_SEEDS=FIRST-LAST overrides the default.
std::pair<std::uint64_t, std::uint64_t> seeds() {
  std::pair<std::uint64_t, std::uint64_t> range{1, 300};
  if (const char* const given = std::getenv("URTRS_HOSTILE_SEEDS"))
    std::sscanf(given, "%" SCNu64 "-%" SCNu64, &range.first, &range.second);
  return range;
}

constexpr unsigned kSteps = 250;
constexpr std::size_t kConnections = 5;

class Hostile : public TwoEnds {
 protected:
  struct One {
    bool up = false;     // work may be posted
    bool ended = false;  // lost, or failed
    bool left = false;   // disconnect() was called
    unsigned closed = 0;
    std::uint32_t sent = 0;  // immediates to the peer
    std::uint32_t seen = 0;  // immediates from the peer
    std::vector<RemoteKeyId> keys{};
  };
  using ConnectionsByNumber = std::map<std::uint16_t, One>;

  std::size_t pick(std::size_t count) { return static_cast<std::size_t>(chance() % count); }

  void play(std::uint64_t chosen);
  void take_events(End&, ConnectionsByNumber& own, ConnectionsByNumber& others);
  void take_event(const SeenEvent&, End&, ConnectionsByNumber& own, ConnectionsByNumber& others);
  void step();
  void fault();
  void connect_one();
  void post_one(End&, ConnectionsByNumber&);
  void disconnect_one(End&, ConnectionsByNumber&);
  void use_key(End&, ConnectionsByNumber&);
  static void release_keys(End&, One&);
  void end_all();
  One* any_of(ConnectionsByNumber&, std::uint16_t& con);
  void turn(unsigned times = 1) {
    for (unsigned i = 0; i < times; ++i) {
      mock_hca::tick();
      poll(client), take_events(client, near, far);
      poll(server), take_events(server, far, near);
    }
  }

  std::mt19937_64 chance;
  std::uint16_t next_con = 0;
  std::uint16_t port = 0;
  bool out[2] = {false, false};
  ConnectionsByNumber near, far;
  std::uint64_t connected = 0, lost = 0, failed = 0, arrived = 0, killed = 0;
};

void Hostile::take_event(const SeenEvent& event, End& end, ConnectionsByNumber& own, ConnectionsByNumber&) {
  if (event.kind == Kind::connect_requested) {
    ASSERT_EQ(&end, &server);
    const std::uint16_t con = ++next_con;
    far[con].up = true;
    server.fabric->accept(event.request, {.path = 0, .con = con, .epoch = 0}, params(), event.bytes());
    server.fabric->post_receive({.path = 0, .con = con, .epoch = 0}, 16, 64);
    return;
  }
  ASSERT_EQ(own.count(event.key.con), 1U);
  One& one = own[event.key.con];
  ASSERT_EQ(one.closed, 0U) << "an event after ConnectionClosed";
  switch (event.kind) {
    case Kind::connected:
      EXPECT_FALSE(one.up || one.ended);
      one.up = true;
      ++connected;
      break;
    case Kind::imm_received:
      EXPECT_FALSE(one.ended);
      EXPECT_EQ(event.imm, ++one.seen) << "each once, in the order of posting";
      end.fabric->post_receive(event.key, 1, 64);
      ++arrived;
      break;
    case Kind::chunk_invalidated:
      ++killed;
      break;
    case Kind::connect_failed:
    case Kind::connection_lost:
      EXPECT_FALSE(one.ended) << "the end was reported twice";
      ++(event.kind == Kind::connect_failed ? failed : lost);
      one.ended = true;
      one.up = false;
      break;
    case Kind::connection_closed:
      EXPECT_TRUE(one.left);
      ++one.closed;
      release_keys(end, one);
      break;
    default:
      break;
  }
}

void Hostile::take_events(End& end, ConnectionsByNumber& own, ConnectionsByNumber& others) {
  while (!end.side->events().empty() && !HasFatalFailure()) {
    const SeenEvent event = end.side->events().front();
    end.side->events().pop_front();
    take_event(event, end, own, others);
  }
}

Hostile::One* Hostile::any_of(ConnectionsByNumber& ones, std::uint16_t& con) {
  std::vector<std::uint16_t> open;
  for (const auto& [number, one] : ones)
    if (!one.left) open.push_back(number);
  if (open.empty()) return nullptr;
  con = open[pick(open.size())];
  return &ones[con];
}

void Hostile::connect_one() {
  std::size_t open = 0;
  for (const auto& [number, one] : near) open += one.left ? 0 : 1;
  if (open >= kConnections) return;
  const std::uint16_t con = ++next_con;
  near[con];
  client.fabric->connect({.path = 0, .con = con, .epoch = 0},
                         {.source = {}, .destination = "192.0.2.1", .port = port}, params(), {});
  client.fabric->post_receive({.path = 0, .con = con, .epoch = 0}, 16, 64);
}

void Hostile::post_one(End& end, ConnectionsByNumber& own) {
  std::uint16_t con = 0;
  One* const one = any_of(own, con);
  if (one == nullptr || !one->up) return;
  WorkRequest work;
  work.key = {.path = 0, .con = con, .epoch = 0};
  work.op = WorkRequest::Op::write_imm;
  work.imm = one->sent + 1;
  work.signalled = pick(2) == 0;
  if (end.fabric->post(std::span(&work, 1)) == 1) ++one->sent;
}

void Hostile::disconnect_one(End& end, ConnectionsByNumber& own) {
  std::uint16_t con = 0;
  One* const one = any_of(own, con);
  // Disconnects a lost connection in any case, and a working one with probability 1/4.
  if (one == nullptr || (!one->ended && pick(4) != 0)) return;
  one->left = true;
  one->up = false;
  end.fabric->disconnect({.path = 0, .con = con, .epoch = 0});
}

void Hostile::release_keys(End& end, One& one) {
  for (const RemoteKeyId id : one.keys) end.fabric->release_key(id);
  one.keys.clear();
}

// Makes, renews or releases a key on the first region.
void Hostile::use_key(End& end, ConnectionsByNumber& own) {
  std::uint16_t con = 0;
  One* const one = any_of(own, con);
  if (one == nullptr || !one->up) return;
  const ConKey key{.path = 0, .con = con, .epoch = 0};
  const std::size_t what = pick(4);
  if (one->keys.size() < 4 && what < 2) {
    const auto made = what == 0 ? end.fabric->make_revocable_key(key, 0, 64 * pick(8), 64)
                                : end.fabric->make_request_key(key, 0, 64 * pick(8), 64);
    if (!made) return;
    if (what == 0)
      one->keys.push_back(made->id);
    else
      end.fabric->release_key(made->id);
    return;
  }
  if (one->keys.empty()) return;
  if (what == 3) return release_keys(end, *one);
  end.fabric->invalidate(key, one->keys.front(), 1);
  end.fabric->rebind(key, one->keys.front());
}

void Hostile::fault() {
  const std::size_t which = pick(2);
  switch (pick(13)) {
    case 0:
      if (!out[which])
        mock_hca::take_out(which, static_cast<mock_hca::Told>(pick(4)));
      else
        mock_hca::put_back(which);
      out[which] = !out[which];
      return;
    case 1:
      return mock_hca::fail_over(which, 1 - which);
    case 2:
      return mock_hca::change_neighbour(which);
    case 3:
      return mock_hca::set_port(which, pick(2) == 0);
    case 4:
      return mock_hca::change_gids(which);
    case 5:
      return mock_hca::fail_last_queue_pair(pick(2) == 0 ? IBV_EVENT_QP_FATAL : IBV_EVENT_QP_ACCESS_ERR);
    case 6:
      return mock_hca::overrun_last_queue();
    case 7:
      return mock_hca::lose_next_rtu();
    case 8:
      return mock_hca::reject_as_stale(1);
    case 9:
      return mock_hca::give_up_handshakes();
    case 10:
      return mock_hca::raise_on_last_queue_pair(IBV_EVENT_COMM_EST);
    case 11:
      now += milliseconds(pick(4'000));
      return;
    default:
      return mock_hca::end_timewait();
  }
}

void Hostile::step() {
  const std::size_t what = pick(48);
  if (what < 3) return connect_one();
  if (what < 11) return post_one(client, near);
  if (what < 19) return post_one(server, far);
  if (what < 20) return disconnect_one(client, near);
  if (what < 21) return disconnect_one(server, far);
  if (what < 22) return fault();
  if (what < 26) return use_key(client, near);
  if (what < 30) return use_key(server, far);
  now += milliseconds(pick(300));
  turn(static_cast<unsigned>(1 + pick(4)));
}

void Hostile::end_all() {
  for (auto* side : {&near, &far}) {
    End& end = side == &near ? client : server;
    for (auto& [con, one] : *side) {
      if (!one.left) end.fabric->disconnect({.path = 0, .con = con, .epoch = 0});
      one.left = true;
      one.up = false;
    }
  }
}

void Hostile::play(std::uint64_t chosen) {
  using Make = mock_hca::Profile (*)();
  constexpr Make kProfiles[] = {mock_hca::mlx5, mock_hca::rxe, mock_hca::irdma, mock_hca::bnxt_re};
  chance.seed(chosen);
  mock_hca::Profile first = mock_hca::hostile(kProfiles[chosen % 4]());
  first.gives_up_after = 0;
  first.reuses_numbers = pick(2) == 0;
  mock_hca::Profile other = first;
  other.name += "_other";
  seed = chosen;
  open({first, other});
  ASSERT_TRUE(client.fabric->allocate(4096) && server.fabric->allocate(4096));
  listen("192.0.2.1");
  port = server.fabric->listening_port();
  for (unsigned i = 0; i < kSteps && !HasFatalFailure(); ++i) step();

  // Each connection must close exactly once, and service must resume when all devices and ports are back.
  for (unsigned i = 0; i < 6; ++i)
    end_all(), turn(20);  // also closes connections that are accepted in the meantime
  for (const ConnectionsByNumber* side : {&near, &far})
    for (const auto& [con, one] : *side) EXPECT_EQ(one.closed, 1U) << con;
  for (std::size_t i = 0; i < 2; ++i) {
    if (out[i]) mock_hca::put_back(i);
    mock_hca::set_port(i, true);
  }
  mock_hca::calm();
  for (unsigned i = 0; i < 12; ++i) now += seconds(1), turn(10);
  near.clear(), far.clear();
  connect_one();
  // A fabric reads kernel events only every 32nd poll.
  turn(150);
  ASSERT_EQ(far.size(), 1U) << "the server does not listen";
  EXPECT_TRUE(near.begin()->second.up);
  post_one(client, near);
  turn(100);
  EXPECT_EQ(far.begin()->second.seen, 1U);
  end_all();
  turn(100);
  mock_hca::end_timewait();
  turn(20);
  close();
}

TEST_F(Hostile, EachConnectionClosesOnceAndServiceResumes) {
  const auto [first, last] = seeds();
  for (std::uint64_t one = first; one <= last && !HasFailure(); ++one) {
    SCOPED_TRACE("seed " + std::to_string(one));
    near.clear(), far.clear();
    next_con = 0;
    out[0] = out[1] = false;
    play(one);
    for (const std::string& problem : mock_hca::problems()) ADD_FAILURE() << problem;
    EXPECT_EQ(mock_hca::objects(), 0U);
  }
  // Without enough events of each kind, the test would prove nothing.
  const std::uint64_t count = last - first + 1;
  if (count < 100) return;
  EXPECT_GT(connected, 3 * count);
  EXPECT_GT(lost, 3 * count);
  EXPECT_GT(failed, count / 2);
  EXPECT_GT(arrived, 4 * count);
  EXPECT_GT(killed, count / 10);
}

}  // namespace
}  // namespace rtrs::conformance::hostile_test
