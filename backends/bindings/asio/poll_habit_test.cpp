#include "backends/bindings/asio/poll_habit.hpp"

#include <gtest/gtest.h>

namespace rtrs::asio::poll_habit_test {
namespace {

// Returns the number of sleeps, out of `sleeps`, before which polling was chosen.
template <class News>
unsigned asked(PollHabit& habit, unsigned sleeps, News news_at) {
  unsigned count = 0;
  for (unsigned i = 0; i < sleeps; ++i) {
    if (!habit.pays()) continue;
    ++count;
    if (news_at(i))
      habit.found();
    else
      habit.found_nothing();
  }
  return count;
}

bool never(unsigned) {
  return false;
}
bool always(unsigned) {
  return true;
}

TEST(PollHabit, PollsWhileAttemptsSucceed) {
  PollHabit habit;
  EXPECT_EQ(asked(habit, 1000, always), 1000U);
}

TEST(PollHabit, PollsRarelyAfterFailedAttempts) {
  PollHabit habit;
  EXPECT_EQ(asked(habit, PollHabit::kMost, never), PollHabit::kMost);
  EXPECT_EQ(asked(habit, PollHabit::kTrial - 1, never), 0U);
  EXPECT_EQ(asked(habit, 10 * PollHabit::kTrial, never), 10U);
}

TEST(PollHabit, PollsAgainWhenATrialSucceeds) {
  PollHabit habit;
  asked(habit, 10 * PollHabit::kTrial, never);
  EXPECT_GE(asked(habit, PollHabit::kTrial + 100, always), 100U);
  EXPECT_EQ(asked(habit, 1000, always), 1000U);
}

TEST(PollHabit, OneSuccessAllowsOneMoreAttempt) {
  PollHabit habit;
  asked(habit, 10 * PollHabit::kTrial, never);
  while (!habit.pays()) {
  }
  habit.found();
  EXPECT_EQ(asked(habit, PollHabit::kTrial - 1, never), 1U);
}

TEST(PollHabit, KeepsPollingIfHalfOfTheAttemptsSucceed) {
  PollHabit habit;
  EXPECT_EQ(asked(habit, 1000, [](unsigned i) { return i % 2 == 0; }), 1000U);
}

TEST(PollHabit, StopsPollingIfAThirdOfTheAttemptsSucceeds) {
  PollHabit habit;
  EXPECT_LT(asked(habit, 1000, [](unsigned i) { return i % 3 == 0; }), 150U);
}

}  // namespace
}  // namespace rtrs::asio::poll_habit_test
