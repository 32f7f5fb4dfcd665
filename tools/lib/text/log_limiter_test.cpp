#include "tools/lib/text/log_limiter.hpp"

#include <gtest/gtest.h>

namespace rtrs::tools::log_limiter_test {
namespace {

constexpr Nanos kStart = seconds(100);

TEST(LogLimiter, FloodIsSummarizedOnce) {
  LogLimiter limiter(2);
  unsigned written = 0;
  for (int i = 0; i < 1000; ++i) written += limiter.allow(1, kStart + i) ? 1 : 0;
  EXPECT_EQ(written, LogLimiter::kLines);
  EXPECT_EQ(limiter.next_due(), kStart + LogLimiter::kWindow);
  EXPECT_FALSE(limiter.due(kStart + LogLimiter::kWindow - 1));
  const auto summary = limiter.due(kStart + LogLimiter::kWindow);
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->kind, 1U);
  EXPECT_EQ(summary->more, 1000 - LogLimiter::kLines);
  EXPECT_FALSE(limiter.due(kStart + LogLimiter::kWindow));
  EXPECT_EQ(limiter.next_due(), kNever);
}

TEST(LogLimiter, KindsHaveSeparateLimits) {
  LogLimiter limiter(2);
  for (int i = 0; i < 100; ++i) (void)limiter.allow(0, kStart);
  EXPECT_TRUE(limiter.allow(1, kStart));
}

TEST(LogLimiter, EachWindowAllowsLinesAgain) {
  LogLimiter limiter(1);
  for (std::uint32_t i = 0; i < LogLimiter::kLines; ++i) EXPECT_TRUE(limiter.allow(0, kStart));
  EXPECT_TRUE(limiter.allow(0, kStart + LogLimiter::kWindow));
  EXPECT_FALSE(limiter.due(kStart + 2 * LogLimiter::kWindow));
}

TEST(LogLimiter, LinesCountedAfterTheWindowAreInTheSummary) {
  LogLimiter limiter(1);
  for (std::uint32_t i = 0; i < LogLimiter::kLines + 1; ++i) (void)limiter.allow(0, kStart);
  EXPECT_FALSE(limiter.allow(0, kStart + LogLimiter::kWindow));
  const auto summary = limiter.due(kStart + LogLimiter::kWindow);
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->more, 2U);
  EXPECT_TRUE(limiter.allow(0, kStart + LogLimiter::kWindow));
}

TEST(LogLimiter, RestReturnsTheUnfinishedWindow) {
  LogLimiter limiter(2);
  for (std::uint32_t i = 0; i < LogLimiter::kLines + 3; ++i) (void)limiter.allow(1, kStart);
  const auto summary = limiter.rest();
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->kind, 1U);
  EXPECT_EQ(summary->more, 3U);
  EXPECT_FALSE(limiter.rest());
}

}  // namespace
}  // namespace rtrs::tools::log_limiter_test
