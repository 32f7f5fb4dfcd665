// Tests the TCP fabric over simulated streams whose network drops large packets: streams with data stall
// while the stream with the heartbeats still delivers.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <variant>
#include <vector>

#include "core/tcp/tcp_delivery.hpp"
#include "sim/net/streams/pipe_network.hpp"

namespace rtrs::sim::black_hole_test {
namespace {

using Delivery = tcp::Transport::Delivery;

Delivery stalled(unsigned attempts) {
  return {.known = true,
          .pending = true,
          .attempts = attempts,
          .packets = 10 + attempts,
          .quiet = milliseconds(300),
          .packet_bytes = 9000,
          .acknowledged = 100};
}

TEST(DeliveryWatch, two_failed_retransmissions_while_small_packets_pass_are_a_black_hole) {
  tcp::DeliveryWatch watch;
  EXPECT_FALSE(watch.is_black_hole(stalled(3), 1000, true)) << "the first check of the stall";
  EXPECT_FALSE(watch.is_black_hole(stalled(4), 1000, true));
  EXPECT_FALSE(watch.is_black_hole(stalled(4), 1000, true));
  EXPECT_TRUE(watch.is_black_hole(stalled(5), 1000, true));
  EXPECT_FALSE(watch.is_black_hole(stalled(6), 1000, true)) << "a stall is reported once";
}

// Small packets of the stalled connection still pass, after which Linux resets its retransmission count to 0.
// The stall must continue to count.
TEST(DeliveryWatch, a_reset_retransmission_count_continues_the_stall) {
  tcp::DeliveryWatch watch;
  Delivery later = stalled(1);
  later.packets = 30;
  watch.is_black_hole(stalled(1), 1000, true);
  EXPECT_FALSE(watch.is_black_hole(stalled(2), 1000, true));
  EXPECT_TRUE(watch.is_black_hole(later, 1000, true));
}

TEST(DeliveryWatch, an_outage_is_no_black_hole) {
  tcp::DeliveryWatch watch;
  for (unsigned attempts = 1; attempts < 9; ++attempts)
    EXPECT_FALSE(watch.is_black_hole(stalled(attempts), 1000, false));
  EXPECT_FALSE(watch.is_black_hole(stalled(9), 1000, true)) << "the outage ended since the last check";
  EXPECT_FALSE(watch.is_black_hole(stalled(9), 1000, true)) << "nothing was sent since";
  Delivery just_sent = stalled(10);
  just_sent.quiet = milliseconds(20);
  EXPECT_FALSE(watch.is_black_hole(just_sent, 1000, true)) << "the acknowledgement may be in flight";
  Delivery next = stalled(1);
  next.acknowledged = 5000;
  EXPECT_FALSE(watch.is_black_hole(next, 1000, true));
  next.packets = 40;
  EXPECT_FALSE(watch.is_black_hole(next, 1000, true)) << "another stall";
}

TEST(DeliveryWatch, a_closed_window_is_no_black_hole) {
  tcp::DeliveryWatch watch;
  for (unsigned attempts = 1; attempts < 9; ++attempts) {
    Delivery closed_window = stalled(attempts);
    closed_window.pending = false;
    EXPECT_FALSE(watch.is_black_hole(closed_window, 1000, true));
  }
}

TEST(DeliveryWatch, acknowledged_data_is_not_checked_again) {
  tcp::DeliveryWatch watch;
  EXPECT_TRUE(watch.needs_check(1000));
  watch.is_black_hole(stalled(0), 1000, true);
  EXPECT_TRUE(watch.needs_check(1000));
  watch.is_black_hole({.known = true}, 1000, true);
  EXPECT_FALSE(watch.needs_check(1000));
  EXPECT_TRUE(watch.needs_check(1001));
}

TEST(DeliveryWatch, passed_greeting_only_needs_three_retransmissions_after_the_greeting) {
  EXPECT_TRUE(tcp::passed_greeting_only(stalled(3), 100));
  EXPECT_FALSE(tcp::passed_greeting_only(stalled(2), 100));
  EXPECT_FALSE(tcp::passed_greeting_only(stalled(3), 99)) << "data after the greeting passed";
  Delivery none = stalled(3);
  none.acknowledged = 0;
  EXPECT_FALSE(tcp::passed_greeting_only(none, 100));
  Delivery closed_window = stalled(3);
  closed_window.pending = false;
  EXPECT_FALSE(tcp::passed_greeting_only(closed_window, 100));
}

// A path with two connections between two processes.
class BlackHoleTest : public ::testing::Test {
 protected:
  BlackHoleTest() {
    NetworkConfig config;
    config.retry_budget = seconds(600);
    config.retry_spread = 0;
    tcp::TcpOptions options;
    options.undelivered_timeout_ms = 0;
    options.handshake_timeout_ms = 60'000;
    options.log = [this](tcp::LogLevel level, const std::string& line) {
      if (level == tcp::LogLevel::error) told_.push_back(line);
    };
    network_ = std::make_unique<PipeNetwork>(config, options, 1);
    for (NodeId node = 0; node < 2; ++node) network_->add_node();
    for (NodeId node = 0; node < 2; ++node) fabrics_[node] = network_->open(node, choice_);
    EXPECT_EQ(fabrics_[1]->listen({"n1.p0", "", 7}), Errc::ok);
  }
  void connect(std::uint16_t con) {
    const ConKey key{.con = con, .epoch = 1};
    fabrics_[0]->connect(key, {"n0.p0", "n1.p0", 7}, kParams, {});
    pass(milliseconds(100));
    fabrics_[0]->post_receive(key, 1000, 64);
    fabrics_[1]->post_receive({.con = con, .epoch = con + 1U}, 1000, 64);
    // A server must not send before the client's first message.
    send(0, key);
  }
  void pass(Nanos time) {
    for (const Nanos end = network_->now() + time; network_->now() < end;) {
      network_->run_until(network_->now() + milliseconds(10), choice_);
      for (auto& fabric : fabrics_) take(*fabric);
    }
  }
  void take(Fabric& fabric) {
    std::array<FabricEvent, 64> events;
    const std::size_t count = fabric.poll(network_->now(), events);
    for (std::size_t at = 0; at < count; ++at) {
      if (const auto* asked = std::get_if<event::ConnectRequested>(&events[at]))
        fabric.accept(asked->request, {.con = accepted_, .epoch = ++accepted_}, kParams, {});
    }
  }
  void send(NodeId from, ConKey key) {
    const std::array<std::byte, 16> text{};
    WorkRequest work;
    work.key = key;
    work.op = WorkRequest::Op::send;
    work.inline_bytes = text;
    EXPECT_EQ(fabrics_[from]->post(std::span(&work, 1)), 1U);
  }
  // Sends heartbeats on both ends, at the default interval.
  void heartbeats(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      send(0, {.con = 0, .epoch = 1});
      send(1, {.con = 0, .epoch = 1});
      pass(seconds(5));
    }
  }

  static constexpr ConnectionParams kParams{.send_depth = 64, .receive_depth = 1000, .key_depth = 4};
  ZeroChoice choice_;
  std::unique_ptr<PipeNetwork> network_;
  std::array<std::unique_ptr<Fabric>, 2> fabrics_;
  std::vector<std::string> told_;
  std::uint16_t accepted_ = 0;
};

TEST_F(BlackHoleTest, stalled_connection_is_reported_once_while_heartbeats_pass) {
  connect(0);
  connect(1);
  heartbeats(2);
  network_->swallow(network_->find_qp(0, {.con = 1, .epoch = 1}), true, choice_);
  send(0, {.con = 1, .epoch = 1});
  heartbeats(6);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_NE(told_[0].find("drops large ones"), std::string::npos) << told_[0];
  EXPECT_NE(told_[0].find("same MTU"), std::string::npos) << told_[0];
}

// The fabric logs stalled connections in at most one line per minute, however many there are.
TEST_F(BlackHoleTest, two_stalled_connections_are_reported_in_one_line) {
  for (std::uint16_t con = 0; con < 3; ++con) connect(con);
  heartbeats(2);
  for (std::uint16_t con = 1; con < 3; ++con) {
    network_->swallow(network_->find_qp(0, {.con = con, .epoch = 1}), true, choice_);
    send(0, {.con = con, .epoch = 1});
  }
  heartbeats(6);
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(BlackHoleTest, stalled_data_of_the_server_is_reported_by_the_server) {
  connect(0);
  connect(1);
  heartbeats(2);
  network_->swallow(network_->find_qp(0, {.con = 1, .epoch = 1}), true, choice_);
  send(1, {.con = 1, .epoch = 2});
  heartbeats(6);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0].find("n0.p0"), 0U) << told_[0];
}

TEST_F(BlackHoleTest, outages_in_one_or_both_directions_are_not_reported) {
  connect(0);
  connect(1);
  heartbeats(2);
  for (unsigned ways = 1; ways <= 3; ++ways) {
    if ((ways & 1) != 0) network_->cut(0, Way::to_server);
    if ((ways & 2) != 0) network_->cut(0, Way::to_client);
    send(0, {.con = 1, .epoch = 1});
    send(1, {.con = 1, .epoch = 2});
    heartbeats(6);
    network_->heal(0, Way::to_server, choice_);
    network_->heal(0, Way::to_client, choice_);
    heartbeats(3);
  }
  EXPECT_TRUE(told_.empty()) << told_[0];
}

// The first large packet is the response to a client's first request. This packet stalls before the session
// is established and before heartbeats are sent.
TEST_F(BlackHoleTest, two_sessions_in_a_row_that_stall_at_their_start_are_reported) {
  for (std::uint16_t attempt = 0; attempt < 2; ++attempt) {
    accepted_ = 0;
    const ConKey key{.con = 0, .epoch = attempt + 1U};
    fabrics_[0]->connect(key, {"n0.p0", "n1.p0", 7}, kParams, {});
    pass(milliseconds(100));
    fabrics_[1]->post_receive({.con = 0, .epoch = 1}, 1000, 64);
    send(0, key);
    pass(milliseconds(100));
    network_->swallow(network_->find_qp(0, key), true, choice_);
    send(1, {.con = 0, .epoch = 1});
    pass(seconds(5));
    EXPECT_EQ(told_.size(), 0U) << told_[0];
    fabrics_[0]->disconnect(key);
    fabrics_[1]->disconnect({.con = 0, .epoch = 1});
    pass(seconds(1));
  }
  EXPECT_EQ(told_.size(), 1U);
}

// A session that is established between the two stalled ones shows that large packets pass.
TEST_F(BlackHoleTest, stalled_starts_with_a_good_session_between_are_not_reported) {
  for (std::uint16_t attempt = 0; attempt < 3; ++attempt) {
    accepted_ = 0;
    const ConKey key{.con = 0, .epoch = attempt + 1U};
    fabrics_[0]->connect(key, {"n0.p0", "n1.p0", 7}, kParams, {});
    pass(milliseconds(100));
    fabrics_[0]->post_receive(key, 1000, 64);
    fabrics_[1]->post_receive({.con = 0, .epoch = 1}, 1000, 64);
    send(0, key);
    pass(milliseconds(100));
    if (attempt != 1) network_->swallow(network_->find_qp(0, key), true, choice_);
    send(1, {.con = 0, .epoch = 1});
    pass(seconds(5));
    fabrics_[0]->disconnect(key);
    fabrics_[1]->disconnect({.con = 0, .epoch = 1});
    pass(seconds(1));
  }
  EXPECT_TRUE(told_.empty()) << told_[0];
}

// The first large response of an established session has passed. A later stall is therefore an outage.
TEST_F(BlackHoleTest, established_sessions_that_stall_are_not_reported) {
  for (std::uint16_t attempt = 0; attempt < 3; ++attempt) {
    accepted_ = 0;
    const ConKey key{.con = 0, .epoch = attempt + 1U};
    fabrics_[0]->connect(key, {"n0.p0", "n1.p0", 7}, kParams, {});
    pass(milliseconds(100));
    fabrics_[0]->post_receive(key, 1000, 64);
    fabrics_[1]->post_receive({.con = 0, .epoch = 1}, 1000, 64);
    send(0, key);
    pass(milliseconds(100));
    send(1, {.con = 0, .epoch = 1});
    pass(milliseconds(100));
    network_->cut(0, Way::to_client);
    send(1, {.con = 0, .epoch = 1});
    pass(seconds(5));
    fabrics_[0]->disconnect(key);
    fabrics_[1]->disconnect({.con = 0, .epoch = 1});
    network_->heal(0, Way::to_client, choice_);
    pass(seconds(1));
  }
  EXPECT_TRUE(told_.empty()) << told_[0];
}

}  // namespace
}  // namespace rtrs::sim::black_hole_test
