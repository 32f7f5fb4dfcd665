// Tests paths with as many connections as the protocol allows, and sessions with as many paths. Work on each
// connection or path is done in batches.
#include <algorithm>

#include "core/proto/test_client_session.hpp"

namespace rtrs::client_wide_test {
namespace {

ClientConfig wide_config() {
  ClientConfig config = small_config();
  config.con_num = 3 * kConsPerStep;
  return config;
}

class ClientWideTest : public ClientSessionFixture {
 protected:
  explicit ClientWideTest(const ClientConfig& config = wide_config()) : ClientSessionFixture(config) {}

  // Connects all connections of path 0, up to the response to INFO_REQ.
  void connect() {
    add_path(0);
    for (std::uint16_t con = 0; con < session.config().con_num; ++con) {
      step(accepted(key(0, con)));
      ASSERT_EQ(session.path(0).con_count(), std::min(con + 2, int{session.config().con_num}));
    }
  }
  void expect_all_ended() {
    std::vector<ConKey> ended;
    for (const Disconnect& one : asked<Disconnect>()) ended.push_back(one.key);
    std::sort(ended.begin(), ended.end());
    EXPECT_EQ(std::unique(ended.begin(), ended.end()), ended.end());
    EXPECT_EQ(ended.size(), session.config().con_num);
  }
};

struct LargestPathTest : ClientWideTest {
  static ClientConfig largest() {
    ClientConfig config = small_config();
    config.con_num = kMaxCons;
    config.request_timeout = seconds(2);  // less than the time after which a silent path is lost
    return config;
  }
  LargestPathTest() : ClientWideTest(largest()) {}
};

TEST_F(LargestPathTest, ComesUpAndEndsInBatches) {
  connect();
  feed(InfoAccepted{now, key(0, 0)});
  EXPECT_EQ(asked<PostReceive>().size(), kMaxCons);
  ASSERT_TRUE(session.path(0).connected());
  step(ConnectionLost{now, key(0, 0), Reason::transport_error});
  EXPECT_EQ(asked<Disconnect>().size(), kConsPerStep);
  while (session.wants_to_continue()) step(Continued{now});
  expect_all_ended();
  const ConKey any = key(0, 0);
  for (std::uint16_t con = kMaxCons; con-- > 0;) {
    EXPECT_EQ(session.path(0).state(), PathState::draining);
    step(ConnectionClosed{now, {0, con, any.epoch}});
  }
  EXPECT_EQ(session.path(0).state(), PathState::waiting);
  ASSERT_EQ(session.broken_invariant(), nullptr);
}

// The loss is one step's work although the path has more connections than one step ends.
TEST_F(LargestPathTest, OverdueRequestEndsItInBatches) {
  connect();
  feed(InfoAccepted{now, key(0, 0)});
  submit();
  now += seconds(2);
  step(DeadlineReached{now});
  EXPECT_EQ(session.path(0).reason(), Reason::request_timeout);
  EXPECT_EQ(asked<Disconnect>().size(), kConsPerStep);
  while (session.wants_to_continue()) step(Continued{now});
  expect_all_ended();
}

TEST_F(ClientWideTest, NothingIsSentBeforeEveryConnectionHasReceives) {
  connect();
  step(InfoAccepted{now, key(0, 0)});
  EXPECT_FALSE(session.path(0).connected());
  EXPECT_TRUE(session.wants_to_continue());
  step(Submitted{now, session.next_permit(), Direction::write, false, false, 0, 4096, 32});
  EXPECT_TRUE(asked<PostRequest>().empty());
  while (session.wants_to_continue()) step(Continued{now});
  EXPECT_TRUE(session.path(0).connected());
  EXPECT_EQ(asked<PostRequest>().size(), 1U);
  EXPECT_EQ(session.broken_invariant(), nullptr);
}

TEST_F(ClientWideTest, SecondInfoDuringTheFirstClosesThePath) {
  connect();
  step(InfoAccepted{now, key(0, 0)});
  feed(InfoAccepted{now, key(0, 0)});
  EXPECT_EQ(session.path(0).reason(), Reason::protocol_violation);
  expect_all_ended();
}

TEST_F(ClientWideTest, LossWhilePostingReceivesClosesEveryConnection) {
  connect();
  step(InfoAccepted{now, key(0, 0)});
  feed(ConnectionLost{now, key(0, 1), Reason::transport_error});
  expect_all_ended();
  EXPECT_EQ(session.connected_paths(), 0U);
}

TEST_F(ClientWideTest, RemovalWhileClosingWaitsForEveryConnection) {
  connect();
  feed(InfoAccepted{now, key(0, 0)});
  step(ConnectionLost{now, key(0, 0), Reason::transport_error});
  std::vector<ClientAction> first = actions;
  feed(PathRemoveRequested{now, 0});
  actions.insert(actions.end(), first.begin(), first.end());
  expect_all_ended();
  drain(0);
  EXPECT_EQ(session.path(0).state(), PathState::absent);
}

class ManyPathsTest : public ClientSessionFixture {};

TEST_F(ManyPathsTest, AllComeUpServeAndClose) {
  open(kMaxPaths);
  EXPECT_EQ(session.connected_paths(), kMaxPaths);
  EXPECT_EQ(session.path_limit(), kMaxPaths);
  feed(PolicyChanged{now, MultipathPolicy::round_robin});
  std::vector<std::uint16_t> used;
  for (unsigned i = 0; i < kMaxPaths; ++i) {
    submit();
    used.push_back(only<PostRequest>().key.path);
    respond(only<PostRequest>());
  }
  std::sort(used.begin(), used.end());
  EXPECT_EQ(std::unique(used.begin(), used.end()), used.end()) << "each path is used";
  feed(CloseRequested{now});
  for (std::uint16_t path = 0; path < kMaxPaths; ++path) drain(path);
  EXPECT_TRUE(session.ended());
}

TEST_F(ManyPathsTest, AllReconnectAfterALoss) {
  open(kMaxPaths);
  for (std::uint16_t path = 0; path < kMaxPaths; ++path) lose(path);
  EXPECT_EQ(session.connected_paths(), 0U);
  for (std::uint16_t path = 0; path < kMaxPaths; ++path) drain(path);
  pass(seconds(10));
  for (std::uint16_t path = 0; path < kMaxPaths; ++path)
    EXPECT_EQ(session.path(path).state(), PathState::connecting) << path;
}

// The fences of all lost paths are requested over the remaining path.
TEST_F(ManyPathsTest, OnePathCarriesTheRequestsOfAllOthers) {
  open(kMaxPaths);
  feed(PolicyChanged{now, MultipathPolicy::round_robin});
  unsigned sent = 0;
  for (; session.next_permit() != kNoPermit; ++sent) submit();
  const std::uint16_t left = 0;
  for (std::uint16_t path = 1; path < kMaxPaths; ++path) {
    lose(path);
    drain(path);
    for (const SendFenceReq& fence : asked<SendFenceReq>()) {
      if (fence.cookie != 0) feed(SendDone{now, fence.key, fence.cookie});
      feed(FenceAnswered{now, key(left, 0), fence.serial, 0});
    }
  }
  for (std::uint16_t permit = 0; permit < sent; ++permit)
    EXPECT_EQ(session.permit(permit).path, left) << permit;
}

}  // namespace
}  // namespace rtrs::client_wide_test
