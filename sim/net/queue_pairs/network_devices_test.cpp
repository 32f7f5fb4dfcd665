// Tests removed adapters, connections whose traffic is dropped, failed allocations, and missing receives.
#include <algorithm>

#include "sim/net/queue_pairs/test_network.hpp"

namespace rtrs::sim::network_devices_test {
namespace {

TEST_F(NetworkTest, RemovedAdapterBreaksItsConnectionsAndCutsItsLinks) {
  connect();
  network.unplug(0, 0, calm);
  EXPECT_TRUE(network.is_unplugged(0, 0));
  const auto seen = run_and_poll(*client);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, Kind::connection_lost);
  EXPECT_EQ(seen[0].reason, Reason::fabric_gone);
  client->connect(ConKey{0, 2, 1}, {"", "n1.p0"}, {64, 64}, {});
  const auto refused = run_and_poll(*client);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].kind, Kind::connect_failed);
  network.plug(0, 0, calm);
  client->connect(ConKey{0, 3, 1}, {"", "n1.p0"}, {64, 64}, {});
  const auto asked = run_and_poll(*server);
  EXPECT_TRUE(std::any_of(asked.begin(), asked.end(),
                          [](const Seen& e) { return e.kind == Kind::connect_requested; }));
}

TEST_F(NetworkTest, LinkCreatedWithoutAdapterIsCutUntilAdapterReturns) {
  network.unplug(1, 5, calm);
  client->connect(ConKey{0, 2, 1}, {"", "n1.p5"}, {64, 64}, {});
  EXPECT_TRUE(run_and_poll(*server).empty());
  network.plug(1, 5, calm);
  EXPECT_EQ(run_and_poll(*server, seconds(3)).size(), 1u) << "the request is repeated";
}

TEST_F(NetworkTest, SwallowedConnectionDeliversNothingButItsLinkDoes) {
  connect();
  make_key(8);
  const QpId qp = network.find_qp(0, kClientKey);
  network.swallow(qp, true, calm);
  post(*client, write(8, 1));
  EXPECT_TRUE(run_and_poll(*server).empty());
  client->connect(ConKey{0, 2, 1}, {"", "n1.p0"}, {64, 64}, {});
  EXPECT_EQ(run_and_poll(*server).size(), 1u) << "connection management is not affected";
  network.swallow(qp, false, calm);
  EXPECT_EQ(run_and_poll(*server).size(), 1u);
}

TEST_F(NetworkTest, PlannedShortageFailsOnlyThePlannedRequests) {
  network.plan_shortage(0, 1, 2);
  EXPECT_TRUE(client->allocate(64).has_value());
  EXPECT_FALSE(client->allocate(64).has_value());
  EXPECT_TRUE(server->allocate(64).has_value());
  client->connect(kClientKey, {"", "n1.p0"}, {64, 64}, {});
  const auto seen = run_and_poll(*client);
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].reason, Reason::no_resources);
  EXPECT_TRUE(client->allocate(64).has_value());
}

// A write waits for a receive that the peer does not post. The requester gives up after 2 s.
class MissingReceiveTest : public NetworkTest {
 protected:
  void SetUp() override {
    NetworkConfig config{default_capabilities()};
    config.rnr_budget = seconds(2);
    start(config, calm);
    connect(kClientKey, kServerKey, 0);
    post(*client, write(0, 1));
    EXPECT_TRUE(run_and_poll(*client, seconds(1)).empty());
  }
};

TEST_F(MissingReceiveTest, MissingReceiveBreaksRequesterAfterRnrBudget) {
  const auto seen = run_and_poll(*client, seconds(2));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, Kind::connection_lost);
  EXPECT_EQ(network.stats().rnr_exceeded, 1u);
}

// Regression test for seed 475213, in which the virtual clock did not advance.
TEST_F(MissingReceiveTest, RnrBudgetDoesNotRunOutWhileRnrNaksAreLost) {
  cut(Way::to_client);
  EXPECT_TRUE(run_and_poll(*client, milliseconds(1500)).empty());
  EXPECT_EQ(network.stats().rnr_exceeded, 0u);
  heal(Way::to_client);
  const auto seen = run_and_poll(*client, seconds(4));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].kind, Kind::connection_lost);
  EXPECT_EQ(network.stats().rnr_exceeded, 1u);
}

TEST_F(NetworkTest, PostIsShortAtMostTwiceInARow) {
  connect();
  network.rates().post_short = ChoiceSource::kMillion;
  const std::vector<WorkRequest> many(4, write(0, 1, false));
  EXPECT_EQ(client->post(many), 0u);
  EXPECT_EQ(client->post(many), 0u);
  EXPECT_EQ(client->post(many), 4u);
}

}  // namespace
}  // namespace rtrs::sim::network_devices_test
