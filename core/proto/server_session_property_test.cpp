// Random conversations with a server session: whatever peers, fabric and application do within their rules,
// nothing is lost, answered twice, or left behind.
#include <algorithm>
#include <map>
#include <set>

#include "core/proto/jitter.hpp"
#include "core/proto/server_invariants.hpp"
#include "core/proto/test_server_session.hpp"

namespace rtrs {
namespace {

class ServerSessionPropertyTest : public ServerSessionTest {
 protected:
  // What the world knows about one connection.
  struct Connection {
    bool disconnected = false;
    std::vector<std::uint64_t> cookies;  // of posted, signalled work
  };

  std::size_t below(std::size_t bound) { return random.up_to(bound - 1); }
  bool chance(unsigned percent) { return below(100) < percent; }
  ConKey any_connection() {
    if (connections.empty()) return ConKey{static_cast<std::uint16_t>(kIndex * kMaxPaths), 0, 1};
    auto at = connections.begin();
    std::advance(at, below(connections.size()));
    return at->first;
  }

  template <class Input>
  void step(Input input) {
    if (ended) return;
    const ServerSession before = *session;
    feed(input);
    // The same input on an equal value does the same.
    ServerSession twin = before;
    ActionList out;
    input.now = now;
    twin.on(input, out);
    ASSERT_EQ(twin, *session);
    ASSERT_EQ(twin.fingerprint(), session->fingerprint());
    ASSERT_EQ(out.size(), actions.size());
    ASSERT_EQ(broken_invariant(*session), nullptr) << broken_invariant(*session);
    for (const Action& action : std::vector<Action>(actions)) look(action);
  }
  void run_batches() {
    while (!ended && session->wants_to_continue()) step(Continued{});
  }

  void look(const Action& action) {
    if (const auto* accept = as<Accept>(action)) {
      ASSERT_TRUE(connections.emplace(accept->key, Connection{}).second);
    } else if (const auto* disconnect = as<Disconnect>(action)) {
      Connection& con = connections.at(disconnect->key);
      ASSERT_FALSE(con.disconnected);
      con.disconnected = true;
    } else if (const auto* deliver = as<Deliver>(action)) {
      ASSERT_FALSE(connections.at(deliver->key).disconnected);
      ASSERT_TRUE(in_service.emplace(deliver->chunk, *deliver).second) << "one user a chunk";
      ++delivered;
    } else if (const auto* invalidate = as<InvalidateChunk>(action)) {
      invalidations.push_back(*invalidate);
    } else if (const auto* response = as<PostResponse>(action)) {
      posted(response->key, response->cookie);
      ASSERT_EQ(owed.erase({response->chunk, response->key}), 1U) << "one answer a request";
    } else if (const auto* imm = as<PostImm>(action)) {
      posted(imm->key, imm->cookie);
    } else if (const auto* info = as<SendInfoRsp>(action)) {
      posted(info->key, info->cookie);
    } else if (const auto* fence = as<SendFenceRsp>(action)) {
      posted(fence->key, fence->cookie);
      ++fences;
    } else if (const auto* release = as<ReleasePath>(action)) {
      released(release->path);
    } else if (as<EndSession>(action) != nullptr) {
      ASSERT_FALSE(ended);
      ASSERT_TRUE(connections.empty() && in_service.empty());
      ended = true;
    }
  }
  void posted(ConKey key, std::uint64_t cookie) {
    Connection& con = connections.at(key);
    ASSERT_FALSE(con.disconnected) << "nothing is posted behind a Disconnect";
    if (cookie != 0) con.cookies.push_back(cookie);
  }
  void released(std::uint16_t path) {
    for (const auto& [key, con] : connections) ASSERT_NE(key.path % kMaxPaths, path);
    for (const auto& [chunk, deliver] : in_service) ASSERT_NE(deliver.key.path % kMaxPaths, path);
    for (auto at = owed.begin(); at != owed.end();) {
      at = at->second.path % kMaxPaths == path ? owed.erase(at) : std::next(at);
    }
  }

  void answer_one() {
    if (in_service.empty()) return;
    auto at = in_service.begin();
    std::advance(at, below(in_service.size()));
    const Deliver deliver = at->second;
    in_service.erase(at);
    const auto con = connections.find(deliver.key);
    if (con != connections.end() && !con->second.disconnected) owed.emplace(deliver.chunk, deliver.key);
    step(Responded{0, deliver.chunk, deliver.serial, static_cast<std::uint16_t>(chance(20) ? 5 : 0)});
  }
  void complete_one() {
    const auto at = connections.find(any_connection());
    if (at == connections.end() || at->second.cookies.empty()) return;
    const std::uint64_t cookie = at->second.cookies.front();
    at->second.cookies.erase(at->second.cookies.begin());
    step(SendDone{0, at->first, cookie});
  }
  void report_closed() {
    const ConKey key = any_connection();
    const auto at = connections.find(key);
    if (at == connections.end() || !at->second.disconnected) return;
    connections.erase(at);
    // The fabric may or may not have reported the invalidations.
    const auto of_key = [key](const InvalidateChunk& one) { return one.key == key; };
    invalidations.erase(std::remove_if(invalidations.begin(), invalidations.end(), of_key),
                        invalidations.end());
    step(ConnectionClosed{0, key});
  }
  void invalidate_one() {
    if (invalidations.empty()) return;
    const InvalidateChunk one = invalidations.front();
    invalidations.erase(invalidations.begin());
    step(ChunkInvalidated{0, one.key, one.chunk, !chance(3)});
  }
  void request_one(ConKey key) {
    const auto chunk = static_cast<std::uint16_t>(below(config.queue_depth));
    if (!session->chunk_idle(chunk) && !chance(5)) return;
    step(chance(50) ? read(key, chunk) : write(key, chunk));
  }
  // The whole handshake of a path, or a single connect request of any attempt.
  void connect_some() {
    const auto path = static_cast<std::uint8_t>(1 + below(4));
    if (chance(20)) {
      return step(request(path, static_cast<std::uint16_t>(below(2)), static_cast<std::uint16_t>(below(4))));
    }
    const auto recon = static_cast<std::uint16_t>(chance(90) ? 2 : 3);
    const ConnectRequested service = request(path, 0, recon);
    step(service);
    if (chance(95)) step(request(path, 1, recon));
    if (chance(95)) step(InfoRequested{0, service.key, 0});
  }
  // Mostly what a peer may send now.
  void message() {
    const ConKey key = any_connection();
    if (session->path_state(key.path % kMaxPaths) != PathState::connected && !chance(3)) return;
    switch (below(8)) {
      case 0:
        return step(ImmReceived{0, key, wire::encode_hb(wire::ImmType::hb_msg)});
      case 1:
        if (key.con != 0 || !chance(20)) return;
        return step(FenceRequested{0, key, static_cast<std::uint32_t>(below(3)),
                                   static_cast<std::uint16_t>(1 + below(3)),
                                   uuid(static_cast<std::uint8_t>(1 + below(4)))});
      default:
        return request_one(key);
    }
  }
  void act() {
    switch (below(12)) {
      case 0:
        return connect_some();
      case 1:
        if (chance(10)) step(ConnectionLost{0, any_connection(), Reason::peer_closed});
        return;
      case 2:
        return report_closed();
      case 3:
        if (chance(10)) now += seconds(below(3));
        return step(DeadlineReached{});
      case 4:
      case 5:
        return complete_one();
      case 6:
      case 7:
        return answer_one();
      case 8:
        return invalidate_one();
      default:
        return message();
    }
  }
  void finish() {
    if (!ended) step(CloseRequested{});
    for (int i = 0; i < 10'000 && !ended; ++i) {
      run_batches();
      if (!in_service.empty()) answer_one();
      report_closed();
    }
    EXPECT_TRUE(ended);
    gated += session->counters().gated;
    dropped += session->counters().dropped_responses;
  }
  void run(std::uint64_t seed) {
    random = Jitter(seed);
    epoch = 0;
    ended = false;
    connections.clear();
    in_service.clear();
    invalidations.clear();
    owed.clear();
    remake();
    for (int i = 0; i < 400 && !ended && !HasFatalFailure(); ++i) {
      act();
      if (chance(80)) run_batches();
    }
    if (!HasFatalFailure()) finish();
  }

  Jitter random;
  std::map<ConKey, Connection> connections;
  std::map<std::uint16_t, Deliver> in_service;
  std::vector<InvalidateChunk> invalidations;
  std::set<std::pair<std::uint16_t, ConKey>> owed;  // answers not posted yet
  std::uint64_t delivered = 0, gated = 0, dropped = 0, fences = 0;
  bool ended = false;
};

TEST_F(ServerSessionPropertyTest, EveryConversationEnds) {
  config.send_depth = 8;
  for (std::uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    run(seed);
  }
  EXPECT_GT(delivered, 1000U);
  EXPECT_GT(gated, 10U);
  EXPECT_GT(dropped, 10U);
  EXPECT_GT(fences, 10U);
}

TEST_F(ServerSessionPropertyTest, EveryConversationWithFreshKeysEnds) {
  config.send_depth = 8;
  config.always_invalidate = true;
  for (std::uint64_t seed = 1; seed <= 400 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    run(seed);
  }
  EXPECT_GT(delivered, 1000U);
  EXPECT_GT(gated, 10U);
  EXPECT_GT(dropped, 10U);
  EXPECT_GT(fences, 10U);
}

}  // namespace
}  // namespace rtrs
