// The verbs backend on in-memory adapters as a network of the simulator. Checks which queue pairs are
// connected.
#include "sim/net/verbs/mock_net.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/fabric/test_seen_event.hpp"

namespace rtrs::mock_net::mock_net_test {
namespace {

using Seen = test::SeenEvent;

constexpr ConKey kClientKey{0, 1, 1}, kServerKey{3, 1, 9}, kLaterKey{4, 1, 9};
constexpr std::uint32_t kAlways = ChoiceSource::kMillion;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class MockNetTest : public ::testing::Test {
 protected:
  static NetworkConfig config() {
    NetworkConfig made;
    made.cm_timeout = milliseconds(100);
    made.cm_late_hold = seconds(100);  // the actual delay is at least a tenth of this
    return made;
  }
  void SetUp() override {
    network.add_node();
    network.add_node();
    client = network.open(0, choice);
    start_server();
  }
  void TearDown() override {
    for (const Violation& violation : network.violations())
      ADD_FAILURE() << "law A" << violation.law << ": " << violation.text;
  }
  void start_server() {
    server = network.open(1, choice);
    ASSERT_EQ(server->listen(PathAddress{{}, {}, 7}), Errc::ok);
  }
  void pass(Nanos time) { network.run_until(network.now() + time, choice); }
  // Polls this process alone until it reports an event of this kind; returns that event.
  Seen until(Fabric& fabric, Seen::Kind kind) {
    for (unsigned steps = 0; steps < 10'000; ++steps) {
      std::array<FabricEvent, 4> batch;
      while (const std::size_t count = fabric.poll(network.now(), batch))
        for (const FabricEvent& event : std::span(batch).first(count))
          if (const Seen seen = test::seen(event); seen.kind == kind) return seen;
      fabric.try_wait();
      pass(milliseconds(100));
    }
    ADD_FAILURE() << "no event of kind " << static_cast<int>(kind);
    return {};
  }
  // Polls this process until it is idle and its messages are in flight.
  void turn(Fabric& fabric) {
    for (unsigned steps = 0; steps < 5; ++steps) {
      std::array<FabricEvent, 4> batch;
      while (fabric.poll(network.now(), batch) != 0) continue;
      fabric.try_wait();
      pass(milliseconds(1));
    }
  }
  void accept(ConKey key) {
    const Seen request = until(*server, Seen::Kind::connect_requested);
    server->accept(request.request, key, {64, 64}, bytes_of("rsp"));
    server->post_receive(key, 8, 256);
    turn(*server);
  }

  SeededChoice choice{1};
  MockNet network{config(), 1};
  std::unique_ptr<Fabric> client, server;
};

// The duplicate request reaches the restarted server process, which has no such connection.
TEST_F(MockNetTest, DuplicateRequestKeepsTheConnectedPeer) {
  network.rates().request_late = kAlways;
  client->connect(kClientKey, {"n0.p0", "n1.p0", 7}, {64, 64}, bytes_of("req"));
  client->post_receive(kClientKey, 8, 256);
  turn(*client);
  ASSERT_EQ(network.stats().cm_late, 1U);
  network.rates().request_late = 0;
  accept(kServerKey);
  until(*client, Seen::Kind::connected);
  const QpId end = network.find_qp(0, kClientKey), peer = network.find_qp(1, kServerKey);
  ASSERT_EQ(network.qp_info(end).peer, peer);
  turn(*client);
  turn(*server);
  WorkRequest message;
  message.key = kServerKey;
  message.op = WorkRequest::Op::send;
  message.inline_bytes = bytes_of("before it died");
  ASSERT_EQ(server->post(std::span(&message, 1)), 1U);
  turn(*server);

  network.crash(1, true, choice);
  network.restart(1);
  start_server();
  accept(kLaterKey);
  EXPECT_NE(network.find_qp(1, kLaterKey), kNone);
  EXPECT_EQ(network.qp_info(end).peer, peer);
  EXPECT_EQ(until(*client, Seen::Kind::message_received).text, "before it died");
}

}  // namespace
}  // namespace rtrs::mock_net::mock_net_test
