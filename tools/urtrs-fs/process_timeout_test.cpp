#include "tools/urtrs-fs/process_timeout.hpp"

#include <gtest/gtest.h>

namespace rtrs::fs_tool::process_timeout_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr Patience::Time kStart{seconds(1000)};

TEST(Patience, UnresponsiveProcessGetsLessTimeUntilItAnswers) {
  Patience one;
  EXPECT_EQ(one.time(false), milliseconds(5000));
  for (const int next : {300, 600, 1200, 1200, 1200}) {
    one.silent(kStart);
    EXPECT_EQ(one.time(false), milliseconds(next));
    EXPECT_EQ(one.time(true), milliseconds(5000)) << "a single process delays no other";
  }
  one.answered();
  EXPECT_EQ(one.time(false), milliseconds(5000));
  one.silent(kStart);
  EXPECT_EQ(one.time(false), milliseconds(300));
}

TEST(Patience, UnresponsiveProcessIsSkippedForAWhile) {
  Patience one;
  EXPECT_TRUE(one.asks(kStart));
  one.silent(kStart);
  EXPECT_FALSE(one.asks(kStart));
  EXPECT_FALSE(one.asks(kStart + seconds(10) - milliseconds(1)));
  EXPECT_TRUE(one.asks(kStart + seconds(10)));
  one.silent(kStart + seconds(10));
  one.answered();
  EXPECT_FALSE(one.asks(kStart + seconds(15))) << "that was another connection";
}

}  // namespace
}  // namespace rtrs::fs_tool::process_timeout_test
