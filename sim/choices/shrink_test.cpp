#include "sim/choices/shrink.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "sim/choices/grouped_choice.hpp"

namespace rtrs::sim::shrink_test {
namespace {

// Record of a toy run: requests, faults, delays and options, in drawn order. A `Bug` decides whether the run
// fails.
struct Story {
  std::uint32_t paths = 1;
  std::vector<std::uint32_t> faults;  // kinds, in order
  std::vector<std::uint32_t> requests;
  std::uint64_t delay = 0;
};

Story tell(ChoiceSource& choice) {
  Story story;
  {
    const ScopedGroup group(choice, Label::option);
    story.paths = 1 + choice.draw(4, Label::swarm);
  }
  for (int step = 0; step < 120; ++step) {
    story.delay += choice.draw(1000, Label::latency);
    if (step % 3 == 0 && !choice.skips(Label::fault_span)) {
      const ScopedGroup group(choice, Label::fault_span);
      story.faults.push_back(choice.draw(6, Label::fault_pick));
    }
    if (step % 2 == 0 && !choice.skips(Label::request)) {
      const ScopedGroup group(choice, Label::request);
      story.requests.push_back(choice.draw(50, Label::workload_op));
      if (story.requests.back() > 40) choice.draw(7, Label::workload_block);
    }
  }
  return story;
}

bool in_order(const std::vector<std::uint32_t>& all, std::initializer_list<std::uint32_t> wanted) {
  auto at = all.begin();
  for (const std::uint32_t one : wanted) {
    at = std::find(at, all.end(), one);
    if (at == all.end()) return false;
    ++at;
  }
  return true;
}

using Bug = bool (*)(const Story&);

ShrinkResult reduce(Bug bug) {
  for (std::uint64_t seed = 0; seed < 10'000; ++seed) {
    SeededChoice seeded(seed);
    seeded.record(true);
    if (!bug(tell(seeded))) continue;
    return shrink(seeded.choice_log(), [bug](const ChoiceLog& candidate) -> std::optional<ChoiceLog> {
      GroupedChoice choice(candidate);
      choice.record(true);
      if (!bug(tell(choice))) return std::nullopt;
      return choice.choice_log();
    });
  }
  ADD_FAILURE() << "no seed fails";
  return {};
}

TEST(Shrink, KeepsOnlyTheNecessaryFaultsInTheirOrder) {
  const ShrinkResult result = reduce([](const Story& story) {
    return story.paths > 1 && in_order(story.faults, {5, 2, 4}) && in_order(story.requests, {7});
  });
  EXPECT_TRUE(result.complete);
  EXPECT_GE(result.before.faults, 30u);
  EXPECT_EQ(result.after, (LogSize{3, 1, 0, 1, 0}));
  EXPECT_LT(result.runs, 2'000u);
  GroupedChoice choice(result.choice_log);
  const Story story = tell(choice);
  EXPECT_EQ(story.faults, (std::vector<std::uint32_t>{5, 2, 4}));
  EXPECT_EQ(story.requests, (std::vector<std::uint32_t>{7}));
  EXPECT_EQ(story.paths, 2u) << "options are as low as the failure allows";
  EXPECT_EQ(story.delay, 0u);
}

TEST(Shrink, KeepsOnlyTheNecessaryDelays) {
  const ShrinkResult result = reduce([](const Story& story) { return story.delay > 40'000; });
  EXPECT_EQ(result.after.faults + result.after.requests + result.after.options, 0u);
  EXPECT_GT(result.after.others, 0u);
  EXPECT_LT(result.after.others, result.before.others);
}

TEST(Shrink, LogThatDoesNotFailIsReturnedUnchanged) {
  SeededChoice seeded(1);
  seeded.record(true);
  tell(seeded);
  const ShrinkResult result = shrink(seeded.choice_log(), [](const ChoiceLog&) { return std::nullopt; });
  EXPECT_EQ(result.choice_log, seeded.choice_log());
  EXPECT_EQ(result.runs, 1u);
  EXPECT_FALSE(result.complete);
}

TEST(Shrink, StopsAtTheTimeLimit) {
  SeededChoice seeded(1);
  seeded.record(true);
  tell(seeded);
  ShrinkOptions options;
  unsigned asked = 0;
  options.out_of_time = [&] { return ++asked > 20; };
  const ShrinkResult result = shrink(
      seeded.choice_log(),
      [](const ChoiceLog& candidate) -> std::optional<ChoiceLog> {
        GroupedChoice choice(candidate);
        choice.record(true);
        tell(choice);
        return choice.choice_log();
      },
      options);
  EXPECT_FALSE(result.complete);
  EXPECT_LT(result.after.groups(), result.before.groups());
}

}  // namespace
}  // namespace rtrs::sim::shrink_test
