// Traffic counters of a path at both ends, and when they are reset.
#include <gtest/gtest.h>

#include "conformance/bench/pair.hpp"

namespace rtrs::bench::traffic_test {
namespace {

class TrafficTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(pair.ready(1)); }
  const Traffic& of_client() { return pair.client().paths()[0].traffic; }
  Traffic of_server() { return pair.server().sessions()[0].paths[0].traffic; }
  Pair pair{1, false};
};

TEST_F(TrafficTest, BothEndsCountDataAndUserHeader) {
  ASSERT_TRUE(pair.one(Direction::read, 4096));
  ASSERT_TRUE(pair.one(Direction::write, 512));
  for (const Traffic& one : {of_client(), of_server()}) {
    EXPECT_EQ(one.reads(), 1U);
    EXPECT_EQ(one.read_bytes(), 4096 + pair.header_bytes());
    EXPECT_EQ(one.writes(), 1U);
    EXPECT_EQ(one.write_bytes(), 512 + pair.header_bytes());
  }
}

TEST_F(TrafficTest, EachEndIsResetSeparately) {
  ASSERT_TRUE(pair.one(Direction::read, 4096));
  EXPECT_EQ(pair.server().reset_statistics(pair.server().sessions()[0].session, 0), Errc::ok);
  EXPECT_EQ(of_server(), Traffic{});
  EXPECT_EQ(of_client().reads(), 1U);
  EXPECT_EQ(pair.client().reset_statistics(0, PathStatistics::reconnects), Errc::ok);
  EXPECT_EQ(of_client().reads(), 1U);
  EXPECT_EQ(pair.client().reset_statistics(0, PathStatistics::traffic), Errc::ok);
  EXPECT_EQ(of_client(), Traffic{});
}

TEST_F(TrafficTest, ResetOfAMissingPathFails) {
  ASSERT_TRUE(pair.one(Direction::read, 4096));
  const std::uint16_t session = pair.server().sessions()[0].session;
  EXPECT_EQ(pair.server().reset_statistics(session, 1), Errc::no_such_path);
  EXPECT_EQ(pair.server().reset_statistics(session, kMaxPaths), Errc::no_such_path);
  EXPECT_EQ(pair.server().reset_statistics(static_cast<std::uint16_t>(session + 1), 0), Errc::no_such_path);
  EXPECT_EQ(pair.client().reset_statistics(1, PathStatistics::all), Errc::no_such_path);
  EXPECT_EQ(of_server().reads(), 1U);
}

}  // namespace
}  // namespace rtrs::bench::traffic_test
