// Tests of the simulated network. TearDown() fails each test in which the law monitor found a violation.
#include "sim/net/queue_pairs/network.hpp"

#include "sim/net/queue_pairs/test_network.hpp"

namespace rtrs::sim::network_test {
namespace {

using Kinds = std::vector<Seen::Kind>;

TEST_F(NetworkTest, WriteWithImmediateArrivesWithItsPayload) {
  connect();
  make_key(100);
  fill(source.bytes, 'x');
  EXPECT_EQ(post(*client, write(100, 5)), 1u);
  const auto at_server = run_and_poll(*server);
  ASSERT_EQ(kinds(at_server), Kinds{Kind::imm_received});
  EXPECT_EQ(at_server[0].imm, 5u);
  EXPECT_EQ(at_server[0].key, kServerKey);
  EXPECT_EQ(target.bytes[99], std::byte{'x'});
  const auto at_client = poll(*client);
  ASSERT_EQ(kinds(at_client), Kinds{Kind::send_done});
  EXPECT_EQ(at_client[0].cookie, 5u);
}

TEST_F(NetworkTest, SendBufferIsReadAtDelivery) {
  connect();
  make_key(8);
  fill(source.bytes, 'a');
  post(*client, write(8, 1));
  fill(source.bytes, 'b');
  run_and_poll(*server);
  EXPECT_EQ(target.bytes[0], std::byte{'b'}) << "a change of the buffer before the completion is sent";
}

TEST_F(NetworkTest, DeliveryAndCompletionTakeTheirLatency) {
  connect();
  post(*client, write(0, 1));
  EXPECT_TRUE(poll(*server).empty());
  EXPECT_TRUE(poll(*client).empty());
  network.run_until(network.now() + network.config().latency, calm);
  EXPECT_EQ(poll(*server).size(), 1u);
  EXPECT_TRUE(poll(*client).empty()) << "the acknowledgement has a latency too";
}

TEST_F(NetworkTest, PostToFullSendQueueAcceptsPrefix) {
  NetworkConfig config{default_capabilities()};
  config.strict_send_queue = true;
  start(config, calm);
  connect();
  std::vector<WorkRequest> many(70, write(0, 1, false));
  EXPECT_EQ(client->post(many), 64u);
  run_and_poll(*client);
  EXPECT_EQ(post(*client, many[0]), 0u) << "unsignalled work frees no slot";
}

TEST_F(NetworkTest, SignalledCompletionFreesAllEarlierSlots) {
  NetworkConfig config{default_capabilities()};
  config.strict_send_queue = true;
  start(config, calm);
  connect();
  std::vector<WorkRequest> many(64, write(0, 1, false));
  many.back().signalled = true;
  EXPECT_EQ(client->post(many), 64u);
  EXPECT_EQ(run_and_poll(*client).size(), 1u);
  EXPECT_EQ(client->post(many), 64u);
}

TEST_F(NetworkTest, UnsignalledWorkFreesItsSlotUnlessStrict) {
  connect();
  const std::vector<WorkRequest> many(70, write(0, 1, false));
  EXPECT_EQ(client->post(many), 64u);
  run_and_poll(*client);
  EXPECT_EQ(client->post(std::span(many).first(64)), 64u);
}

TEST_F(NetworkTest, LostConnectionAcceptsAllWork) {
  connect();
  post(*client, write(0, 7));
  network.run_until(network.now() + 1, calm);
  server->disconnect(kServerKey);
  EXPECT_EQ(kinds(run_and_poll(*client)), Kinds{Kind::connection_lost});
  const std::vector<WorkRequest> many(500, write(0, 1));
  EXPECT_EQ(client->post(many), many.size());
}

TEST_F(NetworkTest, MissingReceiveOnlyDelays) {
  connect(kClientKey, kServerKey, 1);
  post(*client, message(kClientKey, "one"));
  post(*client, message(kClientKey, "two"));
  EXPECT_EQ(run_and_poll(*server, seconds(1000)).size(), 1u);
  server->post_receive(kServerKey, 1, 256);
  const auto events = run_and_poll(*server);
  ASSERT_EQ(kinds(events), Kinds{Kind::message_received});
  EXPECT_EQ(events[0].text, "two");
}

TEST_F(NetworkTest, TooLongMessageBreaksBothEnds) {
  connect();
  post(*client, message(kClientKey, std::string(300, 'x')));
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::connection_lost});
  EXPECT_EQ(kinds(poll(*client)), Kinds{Kind::connection_lost});
  // The receive that was too small was flushed together with the others, so that none is outstanding.
  server->disconnect(kServerKey);
  EXPECT_EQ(kinds(run_and_poll(*server)), std::vector{Kind::connection_closed});
}

TEST_F(NetworkTest, BadKeyWritesNothingAndBreaksBothEnds) {
  connect();
  make_key(16);
  fill(source.bytes, 'x');
  WorkRequest bad = write(16, 1);
  bad.remote_addr += 1;
  post(*client, bad);
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::connection_lost});
  EXPECT_EQ(kinds(poll(*client)), Kinds{Kind::connection_lost});
  for (const std::byte b : target.bytes) EXPECT_EQ(b, std::byte{0});
}

TEST_F(NetworkTest, InvalidatedKeyIsDeadUntilRenewed) {
  connect();
  make_key(16);
  const std::uint32_t old = remote_key.rkey;
  server->invalidate(kServerKey, remote_key.id, 42);
  const auto events = run_and_poll(*server);
  ASSERT_EQ(kinds(events), Kinds{Kind::chunk_invalidated});
  EXPECT_EQ(events[0].cookie, 42u);
  remote_key.rkey = server->rebind(kServerKey, remote_key.id).value();
  EXPECT_NE(remote_key.rkey, old);
  post(*client, write(16, 1));
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::imm_received});
  remote_key.rkey = old;
  post(*client, write(16, 2));
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::connection_lost});
}

TEST_F(NetworkTest, SendWithInvalidateKillsTheKey) {
  connect();
  const Region mine = client->allocate(16).value();
  const RemoteKey offered = client->make_key(mine.id, 0, 16).value();
  WorkRequest wr;
  wr.key = kServerKey;
  wr.op = WorkRequest::Op::send_inv;
  wr.rkey = offered.rkey;
  post(*server, wr);
  const auto events = run_and_poll(*client);
  ASSERT_EQ(kinds(events), Kinds{Kind::key_invalidated});
  EXPECT_EQ(events[0].rkey, offered.rkey);
  post(*server, wr);
  EXPECT_EQ(kinds(run_and_poll(*client)), Kinds{Kind::connection_lost}) << "a key is revoked only once";
}

TEST_F(NetworkTest, OutageBelowTheBudgetOnlyDelays) {
  connect();
  cut(Way::to_server);
  post(*client, write(0, 1));
  EXPECT_TRUE(run_and_poll(*server, network.config().retry_budget - milliseconds(1)).empty());
  heal(Way::to_server);
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::imm_received});
  EXPECT_EQ(kinds(poll(*client)), Kinds{Kind::send_done});
}

TEST_F(NetworkTest, OutageAboveTheBudgetBreaksTheRequesterOnly) {
  connect();
  cut(Way::to_server);
  post(*client, write(0, 1));
  EXPECT_EQ(kinds(run_and_poll(*client, seconds(30))), Kinds{Kind::connection_lost});
  EXPECT_TRUE(poll(*server).empty());
}

TEST_F(NetworkTest, LostAcknowledgementsBreakSenderOfExecutedRequest) {
  connect();
  cut(Way::to_client);
  post(*client, write(0, 1));
  EXPECT_EQ(kinds(run_and_poll(*server, seconds(30))), Kinds{Kind::imm_received});
  EXPECT_EQ(kinds(poll(*client)), Kinds{Kind::connection_lost});
}

TEST_F(NetworkTest, IdleConnectionDoesNotDetectACrash) {
  connect();
  network.crash(1, false, calm);
  EXPECT_TRUE(run_and_poll(*client, seconds(1000)).empty());
  post(*client, write(0, 1));
  EXPECT_EQ(kinds(run_and_poll(*client, seconds(30))), Kinds{Kind::connection_lost});
}

TEST_F(NetworkTest, DisconnectReachesThePeerAndClosesOnce) {
  connect();
  client->disconnect(kClientKey);
  client->disconnect(kClientKey);
  EXPECT_EQ(kinds(run_and_poll(*client)), Kinds{Kind::connection_closed});
  const auto events = poll(*server);
  ASSERT_EQ(kinds(events), Kinds{Kind::connection_lost});
  EXPECT_EQ(events[0].reason, Reason::peer_closed);
  server->disconnect(kServerKey);
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::connection_closed});
}

// Returns `value` for one label and 0 for all others.
class OneChoice final : public ChoiceSource {
 public:
  OneChoice(Label label, std::uint32_t value) : label_(label), value_(value) {}

 protected:
  std::uint32_t choose(std::uint32_t, Label label) override { return label == label_ ? value_ : 0; }

 private:
  Label label_;
  std::uint32_t value_;
};

TEST_F(NetworkTest, OldPeerExecutesGhostsAndNewPeerDoesNot) {
  OneChoice two_ghosts(Label::ghost_count, 2);
  start(NetworkConfig{default_capabilities()}, two_ghosts);
  connect();
  for (std::uint32_t imm = 1; imm <= 3; ++imm) post(*client, write(0, imm));
  network.break_qp(network.find_qp(0, kClientKey), two_ghosts);
  client->disconnect(kClientKey);
  const auto events = run_and_poll(*server);
  EXPECT_EQ(kinds(events), (Kinds{Kind::imm_received, Kind::imm_received, Kind::connection_lost}));
  EXPECT_EQ(network.stats().ghosts, 2u);
  EXPECT_EQ(kinds(poll(*client)), (Kinds{Kind::connection_lost, Kind::connection_closed}));
}

TEST_F(NetworkTest, GhostsCarryTheBufferAtTheDeathOfTheSender) {
  OneChoice one_ghost(Label::ghost_count, 1);
  start(NetworkConfig{default_capabilities()}, one_ghost);
  connect();
  make_key(8);
  fill(source.bytes, 'a');
  post(*client, write(8, 1));
  network.break_qp(network.find_qp(0, kClientKey), one_ghost);
  fill(source.bytes, 'b');
  run_and_poll(*server);
  EXPECT_EQ(target.bytes[0], std::byte{'a'});
}

TEST_F(NetworkTest, GhostsDieWithTheOldPeer) {
  OneChoice ghosts(Label::ghost_count, 3);
  start(NetworkConfig{default_capabilities()}, ghosts);
  connect();
  for (std::uint32_t imm = 1; imm <= 3; ++imm) post(*client, write(0, imm));
  network.break_qp(network.find_qp(0, kClientKey), ghosts);
  server->disconnect(kServerKey);
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::connection_closed});
  EXPECT_EQ(network.stats().ghosts, 0u);
}

TEST_F(NetworkTest, TornWriteIsSeenBeforeItsImmediate) {
  OneChoice torn(Label::torn_write, 999'999);
  start(NetworkConfig{default_capabilities()}, torn);
  network.rates().torn_write = 1;
  connect();
  make_key(100);
  fill(source.bytes, 'x');
  post(*client, write(100, 1));
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::imm_received});
  EXPECT_EQ(network.stats().torn, 1u);
  for (const std::byte b : target.bytes) EXPECT_EQ(b, std::byte{'x'});
}

TEST_F(NetworkTest, PayloadMayLandWithoutAReceive) {
  OneChoice placed(Label::rnr_placement, 999'999);
  start(NetworkConfig{default_capabilities()}, placed);
  network.rates().rnr_placement = 1;
  connect(kClientKey, kServerKey, 0);
  make_key(8);
  fill(source.bytes, 'x');
  post(*client, write(8, 1));
  EXPECT_TRUE(run_and_poll(*server).empty());
  EXPECT_EQ(target.bytes[0], std::byte{'x'});
}

TEST_F(NetworkTest, PostedReceiveMayBeFoundLate) {
  connect();
  make_key(8);
  network.rates().receive_late = ChoiceSource::kMillion;
  post(*client, write(8, 1));
  EXPECT_TRUE(run_and_poll(*server, microseconds(10)).empty());
  network.rates().receive_late = 0;
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::imm_received});
}

TEST_F(NetworkTest, WriteMayLandWhileTheConnectionCloses) {
  OneChoice late(Label::late_placement, 999'999);
  start(NetworkConfig{default_capabilities()}, late);
  network.rates().late_placement = 1;
  connect();
  make_key(8);
  fill(source.bytes, 'x');
  post(*client, write(8, 1));
  server->disconnect(kServerKey);
  EXPECT_EQ(kinds(run_and_poll(*server)), Kinds{Kind::connection_closed});
  EXPECT_EQ(target.bytes[0], std::byte{'x'});
}

}  // namespace
}  // namespace rtrs::sim::network_test
