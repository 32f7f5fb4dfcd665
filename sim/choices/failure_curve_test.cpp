#include "sim/choices/failure_curve.hpp"

#include <gtest/gtest.h>

namespace rtrs::sim::failure_curve_test {
namespace {

std::vector<FailurePoint> curve_of(const std::vector<std::uint64_t>& failed, std::uint64_t redraws = 20) {
  std::vector<FailurePoint> points;
  for (const std::uint64_t one : failed)
    points.push_back({100 * points.size(), 10 * points.size(), redraws, one});
  return points;
}

TEST(PointsBetween, DivideTheRangeWithoutItsEnds) {
  EXPECT_EQ(points_between(0, 100, 3), (std::vector<std::uint64_t>{25, 50, 75}));
  EXPECT_EQ(points_between(4, 7, 8), (std::vector<std::uint64_t>{5, 6})) << "a short range has fewer points";
  EXPECT_TRUE(points_between(4, 5, 8).empty());
  EXPECT_TRUE(points_between(5, 4, 8).empty());
}

TEST(LikelyStep, FindsTheRiseDespiteNoise) {
  const auto step = likely_step(curve_of({1, 0, 2, 1, 17, 20, 18, 20}));
  ASSERT_TRUE(step);
  EXPECT_EQ(step->point, 4u);
  EXPECT_EQ(step->after, 300u);
  EXPECT_EQ(step->before, 400u);
  EXPECT_DOUBLE_EQ(step->rate_before, 4.0 / 80);
  EXPECT_DOUBLE_EQ(step->rate_after, 75.0 / 80);
}

TEST(LikelyStep, SharperRiseHasAHigherGain) {
  const auto sharp = likely_step(curve_of({0, 0, 0, 20, 20, 20}));
  const auto vague = likely_step(curve_of({5, 8, 11, 14, 17, 20}));
  ASSERT_TRUE(sharp && vague);
  EXPECT_GT(sharp->gain, vague->gain);
  EXPECT_GT(vague->gain, 0);
}

TEST(LikelyStep, FindsARiseAtTheVeryEnd) {
  const auto step = likely_step(curve_of({0, 0, 0, 0, 20}));
  ASSERT_TRUE(step);
  EXPECT_EQ(step->point, 4u);
}

TEST(LikelyStep, IsAbsentIfTheRateNeverRises) {
  EXPECT_FALSE(likely_step(curve_of({20, 20, 20})));
  EXPECT_FALSE(likely_step(curve_of({20})));
  EXPECT_FALSE(likely_step({}));
}

TEST(InevitableStep, IsTheFirstPointAfterWhichTheRateStaysHigh) {
  const auto step = inevitable_step(curve_of({1, 19, 3, 19, 20, 20}), 0.9);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->point, 3u);
  EXPECT_FALSE(inevitable_step(curve_of({1, 19, 3}), 0.9));
  EXPECT_EQ(inevitable_step(curve_of({20, 20}), 0.9)->point, 0u);
}

}  // namespace
}  // namespace rtrs::sim::failure_curve_test
