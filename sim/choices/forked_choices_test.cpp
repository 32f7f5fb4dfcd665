#include "sim/choices/forked_choices.hpp"

#include <gtest/gtest.h>

#include "sim/choices/grouped_choice.hpp"

namespace rtrs::sim::forked_choices_test {
namespace {

constexpr std::uint32_t kRange = 1'000'000;

std::vector<std::uint32_t> values_of(ChoiceSource& source, std::size_t count, Label label = Label::test) {
  std::vector<std::uint32_t> values;
  while (values.size() < count) values.push_back(source.draw(kRange, label));
  return values;
}
std::vector<std::uint32_t> part(const std::vector<std::uint32_t>& values, std::size_t from, std::size_t to) {
  return {values.begin() + static_cast<std::ptrdiff_t>(from),
          values.begin() + static_cast<std::ptrdiff_t>(to)};
}

TEST(ForkingChoice, UndecidedPointsChangeNothing) {
  std::vector<std::uint64_t> asked;
  SeededChoice seeded(3);
  ForkingChoice forking(std::make_unique<SeededChoice>(3), {0, 4, 9}, [&](std::uint64_t draw) {
    asked.push_back(draw);
    return std::optional<std::uint64_t>();
  });
  EXPECT_EQ(values_of(forking, 20), values_of(seeded, 20));
  EXPECT_EQ(asked, (std::vector<std::uint64_t>{0, 4, 9}));
}

TEST(ForkingChoice, DecidedPointReplacesTheRest) {
  ForkingChoice forking(std::make_unique<SeededChoice>(3), {4, 9}, [](std::uint64_t draw) {
    return draw == 4 ? std::nullopt : std::optional<std::uint64_t>(5);
  });
  SeededChoice first(3), rest(5);
  const auto values = values_of(forking, 30);
  EXPECT_EQ(part(values, 0, 9), values_of(first, 9));
  EXPECT_EQ(part(values, 9, 30), values_of(rest, 21));
}

// A shrunk choice log leaves groups out. After the fork, these groups may be drawn again.
TEST(ForkingChoice, LeavesGroupsOutOnlyBeforeTheFork) {
  ChoiceLog log;
  log.draws = {{Label::latency, 10, 3}, {Label::latency, 10, 4}};
  log.groups = {{Label::request, 0, 1, 1, true}};
  const auto forked_at = [&log](std::uint64_t point) {
    return ForkingChoice(std::make_unique<GroupedChoice>(log), {point},
                         [](std::uint64_t) { return std::optional<std::uint64_t>(1); });
  };
  ForkingChoice late = forked_at(1);
  EXPECT_EQ(late.draw(10, Label::latency), 3u);
  EXPECT_TRUE(late.skips(Label::request)) << "the fork is at the next draw, not at the next group";
  late.draw(10, Label::latency);
  EXPECT_FALSE(late.skips(Label::request));
  ForkingChoice early = forked_at(0);
  early.draw(10, Label::latency);
  EXPECT_FALSE(early.skips(Label::request));
}

TEST(ForkingChoice, RecordsOneWholeLogThatRepeatsTheRun) {
  ForkingChoice forking(std::make_unique<SeededChoice>(3), {1},
                        [](std::uint64_t) { return std::optional<std::uint64_t>(5); });
  forking.record(true);
  std::vector<std::uint32_t> drawn;
  const auto play = [](ChoiceSource& source) {
    std::vector<std::uint32_t> values{source.draw(kRange, Label::latency)};
    const ScopedGroup group(source, Label::request);
    values.push_back(source.draw(kRange, Label::workload));
    values.push_back(source.draw(kRange, Label::workload));
    return values;
  };
  drawn = play(forking);
  GroupedChoice again(forking.choice_log());
  EXPECT_EQ(play(again), drawn);
}

}  // namespace
}  // namespace rtrs::sim::forked_choices_test
