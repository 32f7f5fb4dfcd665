// Sends random commands to a server session. While peers, fabric and application follow their rules, no
// request is lost or answered twice, and nothing is left at the end. rapidcheck shrinks a failing sequence.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/proto/jitter.hpp"
#include "core/proto/server_invariants.hpp"
#include "core/proto/test_server_session.hpp"

namespace rtrs::server_session_property_test {
namespace {

using Command = std::pair<std::uint8_t, std::uint32_t>;  // kind, and entropy for its parameters
using Commands = std::vector<Command>;

class ServerSessionPropertyTest : public ServerSessionTest {
 protected:
  // State of one connection in the test world.
  struct Connection {
    bool disconnected = false;
    std::vector<std::uint64_t> cookies;  // cookies of signalled work requests in flight
  };

  // Draws a decision of the current command; 0 is the most common result.
  std::size_t below(std::size_t bound) {
    const std::size_t value = entropy % bound;
    entropy /= static_cast<std::uint32_t>(bound);
    return value;
  }
  bool rarely(std::size_t one_in) { return below(one_in) == one_in - 1; }
  ConKey any_connection() {
    if (connections.empty()) return ConKey{0, 0, 1, kIndex};
    auto at = connections.begin();
    std::advance(at, below(connections.size()));
    return at->first;
  }

  template <class Input>
  void step(Input input) {
    if (ended) return;
    const ServerSession before = *session;
    feed(input);
    // Equal states must react equally to the same input.
    ServerSession twin = before;
    ServerActions out;
    input.now = now;
    twin.on(input, out);
    RC_ASSERT(twin == *session);
    RC_ASSERT(twin.fingerprint() == session->fingerprint());
    RC_ASSERT(out.size() == actions.size());
    const char* broken = broken_invariant(*session);
    if (broken != nullptr) RC_FAIL(broken);
    for (const ServerAction& action : std::vector<ServerAction>(actions)) look(action);
  }
  void run_batches() {
    while (!ended && session->wants_to_continue()) step(Continued{});
  }

  void look(const ServerAction& action) {
    if (const auto* accept = action_if<Accept>(action)) {
      RC_ASSERT(connections.emplace(accept->key, Connection{}).second);
    } else if (const auto* disconnect = action_if<Disconnect>(action)) {
      Connection& con = connections.at(disconnect->key);
      RC_ASSERT_FALSE(con.disconnected);
      con.disconnected = true;
    } else if (const auto* deliver = action_if<Deliver>(action)) {
      RC_ASSERT_FALSE(connections.at(deliver->key).disconnected);
      RC_ASSERT(in_service.emplace(deliver->chunk, *deliver).second);  // a chunk has at most one user
      ++delivered;
    } else if (const auto* invalidate = action_if<InvalidateChunk>(action)) {
      invalidations.push_back(*invalidate);
    } else if (const auto* response = action_if<PostResponse>(action)) {
      posted(response->key, response->cookie);
      RC_ASSERT(owed.erase({response->chunk, response->key}) == 1U);  // each request gets one response
    } else if (const auto* imm = action_if<PostImm>(action)) {
      posted(imm->key, imm->cookie);
    } else if (const auto* info = action_if<SendInfoRsp>(action)) {
      posted(info->key, info->cookie);
    } else if (const auto* fence = action_if<SendFenceRsp>(action)) {
      posted(fence->key, fence->cookie);
      ++fences;
    } else if (const auto* release = action_if<ReleasePath>(action)) {
      released(release->path);
    } else if (action_if<EndSession>(action) != nullptr) {
      RC_ASSERT_FALSE(ended);
      RC_ASSERT(connections.empty() && in_service.empty());
      ended = true;
    }
  }
  void posted(ConKey key, std::uint64_t cookie) {
    Connection& con = connections.at(key);
    RC_ASSERT_FALSE(con.disconnected);  // nothing may be posted after a Disconnect
    if (cookie != 0) con.cookies.push_back(cookie);
  }
  void released(std::uint16_t path) {
    for (const auto& [key, con] : connections) RC_ASSERT(key.path != path);
    for (const auto& [chunk, deliver] : in_service) RC_ASSERT(deliver.key.path != path);
    for (auto at = owed.begin(); at != owed.end();) {
      at = at->second.path == path ? owed.erase(at) : std::next(at);
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
    step(Responded{0, deliver.chunk, deliver.serial, static_cast<std::uint16_t>(rarely(5) ? 5 : 0)});
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
    // The fabric may or may not have reported the pending invalidations.
    const auto of_key = [key](const InvalidateChunk& one) { return one.key == key; };
    invalidations.erase(std::remove_if(invalidations.begin(), invalidations.end(), of_key),
                        invalidations.end());
    step(ConnectionClosed{0, key});
  }
  void invalidate_one() {
    if (invalidations.empty()) return;
    const InvalidateChunk one = invalidations.front();
    invalidations.erase(invalidations.begin());
    step(ChunkInvalidated{0, one.key, one.chunk, !rarely(30)});
  }
  void request_one(ConKey key) {
    const auto chunk = static_cast<std::uint16_t>(below(config.queue_depth));
    if (!session->chunk_idle(chunk) && !rarely(20)) return;
    step(below(2) == 0 ? write(key, chunk) : read(key, chunk));
  }
  // Performs the whole handshake of a path, or sends a single connect request of an arbitrary attempt.
  void connect_some() {
    const auto path = static_cast<std::uint8_t>(1 + below(4));
    if (rarely(5)) {
      return step(request(path, static_cast<std::uint16_t>(below(2)), static_cast<std::uint16_t>(below(4))));
    }
    const auto recon = static_cast<std::uint16_t>(rarely(10) ? 3 : 2);
    const ConnectRequested service = request(path, 0, recon);
    step(service);
    if (!rarely(20)) step(request(path, 1, recon));
    if (!rarely(20)) step(InfoRequested{0, service.key, 0});
  }
  // Sends a message, usually one that is legal in the current state.
  void message() {
    const ConKey key = any_connection();
    if (session->path_state(key.path) != PathState::connected && !rarely(30)) return;
    switch (below(8)) {
      case 7:
        return step(ImmReceived{0, key, wire::encode_hb(wire::ImmType::hb_msg)});
      case 6:
        if (key.con != 0 || !rarely(5)) return;
        return step(FenceRequested{0, key, static_cast<std::uint32_t>(below(3)),
                                   static_cast<std::uint16_t>(1 + below(3)),
                                   uuid(static_cast<std::uint8_t>(1 + below(4)))});
      default:
        return request_one(key);
    }
  }
  void execute_command(unsigned what) {
    switch (what % 12) {
      case 0:
        return connect_some();
      case 1:
        if (rarely(10)) step(ConnectionLost{0, any_connection(), Reason::peer_closed});
        return;
      case 2:
        return report_closed();
      case 3:
        if (rarely(10)) now += seconds(below(3));
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
    entropy = 0;
    if (!ended) step(CloseRequested{});
    for (int i = 0; i < 10'000 && !ended; ++i) {
      run_batches();
      if (!in_service.empty()) answer_one();
      entropy = static_cast<std::uint32_t>(i);
      report_closed();
    }
    RC_ASSERT(ended);
    gated += session->counters().gated;
    dropped += session->counters().dropped_responses;
  }
  void play(const Commands& commands) {
    for (const auto& [what, which] : commands) {
      entropy = which;
      execute_command(what);
      // Any command may interrupt a batch.
      if (what < 192) run_batches();
    }
    finish();
  }

  std::uint32_t entropy = 0;
  std::map<ConKey, Connection> connections;
  std::map<std::uint16_t, Deliver> in_service;
  std::vector<InvalidateChunk> invalidations;
  std::set<std::pair<std::uint16_t, ConKey>> owed;  // responses not posted yet
  std::uint64_t delivered = 0, gated = 0, dropped = 0, fences = 0;
  bool ended = false;
};

// Draws each number from its whole range. By default, rapidcheck draws small numbers for short lists.
Commands any_commands() {
  const auto any = [](auto number) {
    return rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<decltype(number)>());
  };
  return *rc::gen::scale(
      5, rc::gen::container<Commands>(rc::gen::pair(any(std::uint8_t{}), any(std::uint32_t{}))));
}

RC_GTEST_FIXTURE_PROP(ServerSessionPropertyTest, EveryConversationEnds, ()) {
  config.send_depth = *rc::gen::element<std::uint16_t>(8, 9, 16);
  config.queue_depth = *rc::gen::element<std::uint16_t>(8, 1, 3);
  config.always_invalidate = *rc::gen::arbitrary<bool>();
  extensions = static_cast<wire::Extensions>(*rc::gen::element<std::uint8_t>(7, 3, 0, 1, 2, 23));
  remake();
  play(any_commands());
}

// Checks that random commands reach the risky states.
class ServerSessionReachTest : public ServerSessionPropertyTest, public testing::WithParamInterface<bool> {};

TEST_P(ServerSessionReachTest, ConversationsReachTheGateFencesAndPathLoss) {
  config.send_depth = 8;
  config.always_invalidate = GetParam();
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Jitter random(seed);
    Commands commands;
    for (int i = 0; i < 400; ++i)
      commands.emplace_back(static_cast<std::uint8_t>(random.up_to(255)),
                            static_cast<std::uint32_t>(random.up_to(0xffffffffU)));
    connections.clear();
    in_service.clear();
    invalidations.clear();
    owed.clear();
    ended = false;
    epoch = 0;
    remake();
    play(commands);
  }
  EXPECT_GT(delivered, 1000U);
  EXPECT_GT(gated, 10U);
  EXPECT_GT(dropped, 10U);
  EXPECT_GT(fences, 10U);
}

INSTANTIATE_TEST_SUITE_P(Keys, ServerSessionReachTest, testing::Bool(),
                         [](const auto& one) { return one.param ? "fresh" : "lasting"; });

}  // namespace
}  // namespace rtrs::server_session_property_test
