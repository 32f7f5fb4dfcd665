#include "sim/choices/choice.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

namespace rtrs::sim::choice_test {
namespace {

std::vector<std::uint32_t> draw_some(ChoiceSource& source) {
  std::vector<std::uint32_t> values;
  for (std::uint32_t n = 1; n < 200; ++n) values.push_back(source.draw(n * 7, Label::test));
  return values;
}

TEST(Choice, SeedGivesTheSameNumbersOnEveryMachine) {
  SeededChoice source(42);
  EXPECT_EQ(source.draw(1000, Label::test), 741u);
  EXPECT_EQ(source.draw(1000, Label::test), 159u);
  EXPECT_EQ(source.draw(1'000'000, Label::test), 278'601u);
}

TEST(Choice, LogReplaysTheRecordedDrawsThenZeros) {
  SeededChoice seeded(7);
  seeded.record(true);
  const auto values = draw_some(seeded);
  LoggedChoice choice_log(seeded.choice_log().draws);
  EXPECT_EQ(draw_some(choice_log), values);
  EXPECT_EQ(choice_log.mismatches(), 0u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(choice_log.draw(100, Label::test), 0u);
}

TEST(Choice, LogDetectsARunThatDiverges) {
  const std::vector<Draw> draws{{Label::latency, 10, 9}, {Label::latency, 10, 9}, {Label::latency, 10, 9}};
  LoggedChoice choice_log(draws);
  EXPECT_EQ(choice_log.draw(10, Label::latency), 9u);
  EXPECT_EQ(choice_log.draw(10, Label::test), 9u);
  EXPECT_EQ(choice_log.draw(4, Label::latency), 3u) << "a value out of range is reduced to n - 1";
  EXPECT_EQ(choice_log.mismatches(), 2u);
}

TEST(Choice, PrefixContinuesAtRandom) {
  const std::vector<Draw> draws{{Label::test, 10, 3}, {Label::test, 10, 4}};
  PrefixChoice one(draws, 1);
  PrefixChoice other(draws, 2);
  for (const std::uint32_t expected : {3u, 4u}) {
    EXPECT_EQ(one.draw(10, Label::test), expected);
    EXPECT_EQ(other.draw(10, Label::test), expected);
  }
  EXPECT_NE(draw_some(one), draw_some(other));
}

TEST(Choice, SpansNestAndCoverTheirDraws) {
  SeededChoice source(1);
  source.record(true);
  {
    const ScopedGroup outer(source, Label::fault_span);
    source.draw(5, Label::test);
    {
      const ScopedGroup inner(source, Label::test);
      source.draw(5, Label::test);
    }
  }
  const std::vector<ChoiceGroup> expected{{Label::fault_span, 0, 0, 2}, {Label::test, 1, 1, 2}};
  EXPECT_EQ(source.choice_log().groups, expected);
}

TEST(Choice, EveryLabelHasAName) {
  EXPECT_STREQ(to_string(Label::none), "none");
  EXPECT_STREQ(to_string(Label::test), "test");
  EXPECT_STREQ(to_string(Label::ghost_delay), "ghost_delay");
}

TEST(Choice, FiresWithAboutTheGivenProbability) {
  SeededChoice source(3);
  int fired = 0;
  for (int i = 0; i < 100'000; ++i) fired += source.fires(250'000, Label::test) ? 1 : 0;
  EXPECT_NEAR(fired, 25'000, 1000);
  const auto before = source.drawn();
  EXPECT_FALSE(source.fires(0, Label::test));
  EXPECT_EQ(source.drawn(), before) << "an impossible event needs no draw";
  ZeroChoice calm;
  EXPECT_FALSE(calm.fires(999'999, Label::test));
}

TEST(Choice, ExponentialHasItsMean) {
  SeededChoice source(9);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i)
    sum += static_cast<double>(draw_exponential(source, 100, 1000, Label::test));
  EXPECT_NEAR(sum / 100'000, 1100, 60);
  ZeroChoice calm;
  EXPECT_EQ(draw_exponential(calm, 100, 1000, Label::test), 100u);
}

RC_GTEST_PROP(Choice, DrawnTimesStayInRange, (std::uint64_t range, std::uint64_t seed)) {
  SeededChoice source(seed);
  const std::uint64_t time = draw_time(source, range, Label::test);
  RC_ASSERT(time <= range);
}

RC_GTEST_PROP(Choice, DrawsStayBelowN, (std::uint32_t n, std::uint64_t seed)) {
  SeededChoice source(seed);
  RC_ASSERT(source.draw(n, Label::test) < (n == 0 ? 1 : n));
}

TEST(SeededChoice, RareLabelsDoNotShiftDrawsOfOtherLabels) {
  SeededChoice plain(3), rare(3);
  for (unsigned draw = 0; draw < 100; ++draw) {
    rare.draw(10, Label::rare_swarm);
    EXPECT_EQ(plain.draw(1000, Label::latency), rare.draw(1000, Label::latency));
    rare.draw(10, Label::post_short);
  }
}

}  // namespace
}  // namespace rtrs::sim::choice_test
