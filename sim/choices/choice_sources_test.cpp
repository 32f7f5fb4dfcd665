#include "sim/choices/choice_sources.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sim/choices/grouped_choice.hpp"

namespace rtrs::sim::choice_sources_test {
namespace {

TEST(BytesChoice, UsesAsFewBytesAsTheRangeNeedsAndReportsTheEnd) {
  const std::vector<std::uint8_t> bytes{7, 1, 0, 0, 1, 0};
  BytesChoice choice(bytes);
  EXPECT_EQ(choice.draw(1, Label::test), 0u) << "a draw below 1 uses no byte";
  EXPECT_EQ(choice.draw(256, Label::test), 7u);
  EXPECT_EQ(choice.draw(257, Label::test), 256u);
  EXPECT_EQ(choice.draw(1 << 24, Label::test), 256u);
  EXPECT_FALSE(choice.exhausted());
  EXPECT_EQ(choice.draw(2, Label::test), 0u);
  EXPECT_TRUE(choice.exhausted());
}

TEST(OdometerChoice, PlaysEveryCombinationOnce) {
  OdometerChoice choice;
  std::set<std::string> seen;
  do {
    // The number of further draws depends on the first one.
    std::string run = std::to_string(choice.draw(3, Label::test));
    const std::uint32_t more = run == "2" ? 2 : 1;
    for (std::uint32_t i = 0; i < more; ++i) run += std::to_string(choice.draw(2, Label::test));
    EXPECT_TRUE(seen.insert(run).second) << run;
  } while (choice.next());
  EXPECT_EQ(seen, (std::set<std::string>{"00", "01", "10", "11", "200", "201", "210", "211"}));
  EXPECT_EQ(choice.runs(), 8u);
}

TEST(OdometerChoice, FirstCombinationIsAllZero) {
  OdometerChoice choice;
  EXPECT_FALSE(choice.fires(500'000, Label::test));
  EXPECT_EQ(choice.draw(9, Label::test), 0u);
}

TEST(ExplicitChoice, CallsTheFunctionForEachDraw) {
  ExplicitChoice choice([](std::uint32_t n, Label label) { return label == Label::cm_lost ? n - 1 : 0; });
  EXPECT_TRUE(choice.fires(1, Label::cm_lost));
  EXPECT_FALSE(choice.fires(1, Label::cm_late));
}

// A run with faults and delays; its draws depend on the groups that are left out.
std::string play(ChoiceSource& choice) {
  std::string out;
  for (int i = 0; i < 3; ++i) {
    out += " d" + std::to_string(choice.draw(100, Label::latency));
    if (choice.skips(Label::fault_span)) {
      out += " -";
      continue;
    }
    const ScopedGroup group(choice, Label::fault_span);
    out += " f" + std::to_string(choice.draw(100, Label::fault_pick));
    if (choice.draw(2, Label::fault_direction) == 1) out += "!";
    out += "h" + std::to_string(choice.draw(100, Label::fault_hold));
  }
  return out;
}

TEST(GroupedChoice, PlaysAnUneditedLogUnchanged) {
  SeededChoice seeded(5);
  seeded.record(true);
  const std::string first = play(seeded);
  GroupedChoice choice_log(seeded.choice_log());
  choice_log.record(true);
  EXPECT_EQ(play(choice_log), first);
  EXPECT_EQ(choice_log.choice_log(), seeded.choice_log());
}

TEST(GroupedChoice, LeftOutGroupDoesNotShiftOtherDraws) {
  ExplicitChoice source([count = 10u](std::uint32_t n, Label) mutable { return ++count % n; });
  source.record(true);
  const std::string whole = play(source);
  ASSERT_EQ(whole, " d11 f12!h14 d15 f16!h18 d19 f20!h22");
  ChoiceLog edited = source.choice_log();
  edited.groups[1].left_out = true;
  edited.draws[0].value = 0;
  GroupedChoice choice_log(edited);
  choice_log.record(true);
  EXPECT_EQ(play(choice_log), " d0 f12!h14 d15 - d19 f20!h22");
  // The recorded choice log of that run can be played again and gives the same draws.
  GroupedChoice again(choice_log.choice_log());
  EXPECT_EQ(play(again), " d0 f12!h14 d15 - d19 f20!h22");
}

TEST(GroupedChoice, MissingDrawsAreZeroAndMissingGroupsAreLeftOut) {
  GroupedChoice choice_log{ChoiceLog{}};
  EXPECT_EQ(play(choice_log), " d0 - d0 - d0 -");
}

TEST(GroupedChoice, TrimmedLogGivesTheSameRun) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SeededChoice seeded(seed);
    seeded.record(true);
    play(seeded);
    ChoiceLog edited = seeded.choice_log();
    edited.draws.back().value = 0;
    edited.groups[seed % 3].left_out = true;
    if (seed % 2 == 0) edited.groups[2].left_out = true;
    GroupedChoice whole(edited);
    whole.record(true);
    const std::string expected = play(whole);
    const ChoiceLog small = trimmed(whole.choice_log());
    EXPECT_LE(small.draws.size(), whole.choice_log().draws.size());
    GroupedChoice again(small);
    EXPECT_EQ(play(again), expected) << "seed " << seed;
  }
  EXPECT_EQ(trimmed(ChoiceLog{{{Label::latency, 9, 0}}, {}}), ChoiceLog{});
}

}  // namespace
}  // namespace rtrs::sim::choice_sources_test
