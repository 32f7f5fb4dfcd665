// Tests the status that a block server reports to operators.
#include <gtest/gtest.h>

#include "core/driver/test_block_server.hpp"

namespace rtrs::block_server_look_test {
namespace {

using test::RawClient;
using wire::rnbd::Opcode;

class BlockServerLookTest : public test::BlockServerTest {};

TEST_F(BlockServerLookTest, ServiceTimeRunsFromRequestToResponse) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  ASSERT_EQ(server.reset_statistics(0, 0), Errc::ok);
  const Nanos arrived = now + 1;
  client.io(3, device, Opcode::write);
  turn();
  now = arrived + milliseconds(7);
  EXPECT_TRUE(done(storage.at(0).id));
  const auto times = [this](Direction direction) {
    return server.transport().sessions().at(0).paths.at(0).times->of(direction);
  };
  EXPECT_EQ(times(Direction::write).count(), 1U);
  EXPECT_EQ(times(Direction::write).max(), milliseconds(7));
  EXPECT_EQ(times(Direction::read).count(), 0U);
  EXPECT_EQ(server.reset_statistics(0, 0), Errc::ok);
  EXPECT_EQ(times(Direction::write).count(), 0U);
}

TEST_F(BlockServerLookTest, InFlightRequestReportsItsWaitAndItsStart) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  EXPECT_TRUE(server.in_flight(0).empty());
  const Nanos arrived = now + 1;
  client.io(3, device, Opcode::write);
  defers_opens = true;
  client.open(5, "other");
  turn();
  const std::vector<RequestInFlight> all = server.in_flight(0);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].chunk, 3);
  EXPECT_EQ(all[0].waits, RequestInFlight::Waits::storage);
  EXPECT_EQ(block::OpId{all[0].operation}, storage.at(0).id);
  EXPECT_GE(all[0].since, arrived);
  EXPECT_EQ(all[0].data_len, 4096U);
  EXPECT_EQ(wire::rnbd::parse_io(all[0].user_header).value.device_id, device);
  EXPECT_EQ(all[1].chunk, 5);
  EXPECT_EQ(all[1].waits, RequestInFlight::Waits::open);
  EXPECT_TRUE(done(storage[0].id));
  EXPECT_EQ(server.in_flight(0).size(), 1U);
  EXPECT_TRUE(server.in_flight(7).empty()) << "no such session";
}

// A request beyond the known size is handed to storage only after the export was measured, so its wait for
// storage starts then.
TEST_F(BlockServerLookTest, StorageWaitStartsWhenTheRequestReachesStorage) {
  RawClient client = connect();
  const std::uint32_t device = opened(client, "disk");
  client.io(3, device, Opcode::write, 4096, 1024);
  turn();
  ASSERT_EQ(measures.size(), 1U);
  EXPECT_EQ(server.in_flight(0).at(0).waits, RequestInFlight::Waits::devices);
  now += seconds(3);
  EXPECT_TRUE(server.export_measured(fabric, now, measures[0].id, 2048));
  turn();
  ASSERT_EQ(storage.size(), 1U);
  const RequestInFlight one = server.in_flight(0).at(0);
  EXPECT_EQ(one.waits, RequestInFlight::Waits::storage);
  EXPECT_GE(one.since, seconds(3));
}

}  // namespace
}  // namespace rtrs::block_server_look_test
