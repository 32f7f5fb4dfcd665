// Retry and timeout settings of queue pairs, and the type of service (TOS) of their packets.
#include <algorithm>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::retry_settings_test {
namespace {

class RetrySettingsTest : public TwoEnds {
 protected:
  void connected(const verbs::VerbsOptions& options, const mock_hca::Profile& profile = mock_hca::mlx5()) {
    open({profile}, options);
    listen("192.0.2.1");
    connect_both_ends("192.0.2.1");
    poll_both();
  }
  static bool warned(const End& end, const std::string& part) {
    return std::any_of(end.log.begin(), end.log.end(), [&](const auto& line) {
      return line.first == verbs::LogLevel::warning && line.second.find(part) != std::string::npos;
    });
  }
};

TEST_F(RetrySettingsTest, DefaultSettingsAreEqualAtBothEnds) {
  ASSERT_NO_FATAL_FAILURE(connected({}));
  EXPECT_EQ(mock_hca::wires(), (std::vector<mock_hca::Wire>{{17, 6, 0}, {17, 6, 0}}));
  leave();
}

TEST_F(RetrySettingsTest, OptionsReachTheQueuePairsOfBothEnds) {
  verbs::VerbsOptions options;
  options.ack_timeout = 14;
  options.retry_count = 5;
  options.tos = 106;
  ASSERT_NO_FATAL_FAILURE(connected(options));
  EXPECT_EQ(mock_hca::wires(), (std::vector<mock_hca::Wire>{{14, 5, 106}, {14, 5, 106}}));
  EXPECT_TRUE(client.logged("sent 6 times, with ack timeout 14"));
  leave();
}

// The client sets no options, as Linux's client does.
TEST_F(RetrySettingsTest, ServerUsesItsOwnOptions) {
  mock_hca::reset({mock_hca::mlx5()});
  ASSERT_NO_FATAL_FAILURE(connected({}));
  leave();
  verbs::VerbsOptions options;
  options.ack_timeout = 12;
  options.tos = 40;
  options.retry_count = 3;
  options.min_rnr_timer = 9;
  auto fabric = verbs::open_verbs_fabric(options);
  ASSERT_TRUE(fabric);
  server.side.reset();
  server.fabric = std::move(*fabric);
  server.side = std::make_unique<Side>(*server.fabric);
  listen("192.0.2.1");
  connect_both_ends("192.0.2.1", kNearAgain, kFarAgain);
  poll_both();
  const std::vector<mock_hca::Wire> both = mock_hca::wires();
  EXPECT_EQ(std::count(both.begin(), both.end(), mock_hca::Wire{12, 3, 40, 9}), 1);
  EXPECT_EQ(std::count(both.begin(), both.end(), mock_hca::Wire{17, 3, 0}), 1) << "the lower count applies";
  leave(kNearAgain, kFarAgain);
}

// The connection manager transmits the client's values, and a server without options uses them.
TEST_F(RetrySettingsTest, ServerWithoutOptionsUsesThoseOfTheClient) {
  ASSERT_NO_FATAL_FAILURE(connected({}));
  leave();
  verbs::VerbsOptions options;
  options.ack_timeout = 12;
  options.tos = 40;
  auto fabric = verbs::open_verbs_fabric(options);
  ASSERT_TRUE(fabric);
  client.side.reset();
  client.fabric = std::move(*fabric);
  client.side = std::make_unique<Side>(*client.fabric);
  connect_both_ends("192.0.2.1", kNearAgain, kFarAgain);
  poll_both();
  EXPECT_EQ(mock_hca::wires(), (std::vector<mock_hca::Wire>{{12, 6, 40}, {12, 6, 40}}));
  leave(kNearAgain, kFarAgain);
}

TEST_F(RetrySettingsTest, RetryTimeAboveTheHeartbeatIsLoggedWithAHint) {
  verbs::VerbsOptions options;
  options.dead_peer_time = seconds(8);
  ASSERT_NO_FATAL_FAILURE(connected(options));
  EXPECT_TRUE(warned(client, "takes 3.8 s to 15.0 s"));
  EXPECT_TRUE(warned(client, "(--rdma-ack-timeout) of at most 16"));
  leave();
  close();
  options.dead_peer_time = seconds(2);
  ASSERT_NO_FATAL_FAILURE(connected(options));
  EXPECT_TRUE(warned(client, "fewer retries (--rdma-retry-count) or a longer heartbeat"));
  leave();
}

TEST_F(RetrySettingsTest, UnlimitedRetriesOfSoftRoceAreLogged) {
  verbs::VerbsOptions options;
  options.retry_count = 7;
  options.dead_peer_time = seconds(35);
  ASSERT_NO_FATAL_FAILURE(connected(options, mock_hca::rxe()));
  EXPECT_TRUE(warned(server, "which takes for ever"));
  leave();
}

TEST_F(RetrySettingsTest, RetryTimeBelowTheHeartbeatIsLoggedOnce) {
  verbs::VerbsOptions options;
  options.dead_peer_time = seconds(35);
  ASSERT_NO_FATAL_FAILURE(connected(options));
  leave();
  connect_both_ends("192.0.2.1", kNearAgain, kFarAgain);
  EXPECT_FALSE(warned(client, "heartbeat"));
  EXPECT_EQ(
      std::count_if(client.log.begin(), client.log.end(),
                    [](const auto& line) { return line.second.find("ack timeout") != std::string::npos; }),
      1);
  leave(kNearAgain, kFarAgain);
}

TEST_F(RetrySettingsTest, InvalidAckTimeoutIsRefused) {
  mock_hca::reset({mock_hca::mlx5()});
  verbs::VerbsOptions options;
  options.ack_timeout = 32;
  const auto fabric = verbs::open_verbs_fabric(options);
  ASSERT_FALSE(fabric);
  EXPECT_EQ(fabric.error(), Errc::invalid);
}

}  // namespace
}  // namespace rtrs::conformance::retry_settings_test
