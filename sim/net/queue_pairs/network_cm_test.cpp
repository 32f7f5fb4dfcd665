// Tests of connection management, crashes and restarts of the simulated network.
#include "sim/net/queue_pairs/network.hpp"

#include "sim/net/queue_pairs/test_network.hpp"

namespace rtrs::sim::network_cm_test {
namespace {

using Kinds = std::vector<Seen::Kind>;

TEST_F(NetworkTest, ConnectWithoutListenerIsRefused) {
  client->connect(kClientKey, {"n0.p0", "n1.p0", 999}, {64, 64}, {});
  const auto events = run_and_poll(*client);
  ASSERT_EQ(kinds(events), Kinds{Kind::connect_failed});
  EXPECT_EQ(events[0].reason, Reason::connect_refused);
  client->disconnect(kClientKey);
  EXPECT_EQ(kinds(run_and_poll(*client)), Kinds{Kind::connection_closed});
}

TEST_F(NetworkTest, InvalidAddressIsRejected) {
  for (const char* text : {"", "n7.p0", "n1", "n1.p", "1.2.3.4", "n1.p0x", "n0.p0"}) {
    static std::uint32_t epoch = 100;
    const ConKey key{0, 0, ++epoch};
    client->connect(key, {"", text}, {64, 64}, {});
    const auto events = run_and_poll(*client);
    ASSERT_EQ(kinds(events), Kinds{Kind::connect_failed}) << text;
    EXPECT_EQ(events[0].reason, Reason::address_unresolved);
  }
  EXPECT_EQ(server->listen({"n0.p0", ""}), Errc::bad_address);
  EXPECT_EQ(server->listen({}), Errc::address_in_use);
}

TEST_F(NetworkTest, RejectCarriesItsData) {
  client->connect(kClientKey, {"n0.p0", "n1.p0"}, {64, 64}, {});
  const auto requests = run_and_poll(*server);
  ASSERT_EQ(requests.size(), 1u);
  server->reject(requests[0].request, bytes_of("no"));
  const auto events = run_and_poll(*client);
  ASSERT_EQ(kinds(events), Kinds{Kind::connect_failed});
  EXPECT_EQ(events[0].reason, Reason::rejected);
  EXPECT_EQ(events[0].text, "no");
}

TEST_F(NetworkTest, LostReplyIsResentAndRequestIsReportedOnce) {
  client->connect(kClientKey, {"n0.p0", "n1.p0"}, {64, 64}, {});
  const auto requests = run_and_poll(*server);
  ASSERT_EQ(requests.size(), 1u);
  link = network.link(0, 0, 1, 0);
  cut(Way::to_client);
  server->accept(requests[0].request, kServerKey, {64, 64}, {});
  EXPECT_TRUE(run_and_poll(*client, seconds(3)).empty());
  heal(Way::to_client);
  EXPECT_EQ(kinds(run_and_poll(*client, seconds(3))), Kinds{Kind::connected});
  EXPECT_TRUE(poll(*server).empty());
}

TEST_F(NetworkTest, UnansweredRequestTimesOut) {
  network.crash(1, false, calm);
  client->connect(kClientKey, {"n0.p0", "n1.p0"}, {64, 64}, {});
  const auto events = run_and_poll(*client, seconds(100));
  ASSERT_EQ(kinds(events), Kinds{Kind::connect_failed});
  EXPECT_EQ(events[0].reason, Reason::connect_timeout);
}

TEST_F(NetworkTest, AcceptAfterClientLeftReportsLoss) {
  client->connect(kClientKey, {"n0.p0", "n1.p0"}, {64, 64}, {});
  const auto requests = run_and_poll(*server);
  ASSERT_EQ(requests.size(), 1u);
  client->disconnect(kClientKey);
  EXPECT_EQ(kinds(run_and_poll(*client)), Kinds{Kind::connection_closed});
  server->accept(requests[0].request, kServerKey, {64, 64}, {});
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::connection_lost});
  EXPECT_TRUE(poll(*client).empty());
}

TEST_F(NetworkTest, OrderlyCrashDisconnectsPeersAndRefusesConnects) {
  connect();
  network.crash(1, true, calm);
  EXPECT_EQ(kinds(run_and_poll(*client)), Kinds{Kind::connection_lost});
  const ConKey second{0, 1, 2};
  client->connect(second, {"n0.p0", "n1.p0"}, {64, 64}, {});
  EXPECT_EQ(kinds(run_and_poll(*client)), Kinds{Kind::connect_failed});
}

TEST_F(NetworkTest, RestartedNodeIsEmptyAndOldKeysAreDead) {
  connect();
  make_key(16);
  const RemoteKey old = remote_key;
  network.crash(1, false, calm);
  network.restart(1);
  EXPECT_EQ(server->allocate(1).error(), Errc::fabric_error) << "a fabric opened before the crash is inert";
  server = std::make_unique<SimFabric>(network, 1, calm);
  ASSERT_EQ(server->listen({}), Errc::ok);
  const ConKey second{0, 1, 2};
  connect(second, kServerKey);
  target = server->allocate(16).value();
  remote_key = server->make_key(target.id, 0, 16).value();
  EXPECT_NE(remote_key.rkey, old.rkey);
  EXPECT_NE(remote_key.remote_addr, old.remote_addr);
  remote_key = old;
  WorkRequest wr = write(16, 1);
  wr.key = second;
  post(*client, wr);
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::connection_lost});
}

TEST_F(NetworkTest, StarvedHeartbeatsAreDelayedAndNothingBreaks) {
  const ConKey service{0, 0, 1};
  connect(service, kServerKey);
  network.starve(link, Way::to_server, network.now() + seconds(100));
  WorkRequest heartbeat = write(0, 8);
  heartbeat.key = service;
  post(*client, heartbeat);
  EXPECT_TRUE(run_and_poll(*server, seconds(99)).empty());
  EXPECT_EQ(kinds(run_and_poll(*server, seconds(2))), Kinds{Kind::imm_received});
}

TEST_F(NetworkTest, CompletionOnWeakNetworkOnlyMeansCopied) {
  start(NetworkConfig{weak_capabilities()}, calm);
  connect(kClientKey, kServerKey, 0);
  make_key(8);
  fill(source.bytes, 'a');
  cut(Way::to_server);
  post(*client, write(8, 1));
  EXPECT_EQ(kinds(run_and_poll(*client)), Kinds{Kind::send_done});
  fill(source.bytes, 'b');
  heal(Way::to_server);
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::imm_received}) << "consumes no receive";
  EXPECT_EQ(target.bytes[0], std::byte{'a'});
}

TEST_F(NetworkTest, DescribeReturnsTheAddressesOfTheLink) {
  connect();
  EXPECT_EQ(client->describe(kClientKey), "n0.p0 > n1.p0");
  EXPECT_EQ(client->describe(ConKey{9, 9, 9}), "gone");
}

}  // namespace
}  // namespace rtrs::sim::network_cm_test
