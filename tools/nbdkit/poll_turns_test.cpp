#include "tools/nbdkit/poll_turns.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace rtrs::nbdkit::poll_turns_test {
namespace {

using Keeper = PollTurns::Keeper;

TEST(PollTurns, ThreadPollsIfNoOtherDoes) {
  PollTurns turns;
  PollWaiter one;
  EXPECT_TRUE(turns.begin(one));
  EXPECT_TRUE(one.polls);
  PollWaiter two;
  EXPECT_FALSE(turns.begin(two));
  EXPECT_FALSE(two.polls);
}

TEST(PollTurns, TheTurnPassesToTheNewestOperation) {
  PollTurns turns;
  PollWaiter one, two, three;
  turns.begin(one);
  turns.begin(two);
  turns.begin(three);
  EXPECT_FALSE(turns.finish(one)) << "the polling thread need not be woken";
  const PollTurns::Next next = turns.leave(one);
  EXPECT_EQ(next.waiter, &three);
  EXPECT_TRUE(three.polls);
  EXPECT_FALSE(next.keeper);
  EXPECT_TRUE(turns.finish(two)) << "it sleeps";
  EXPECT_FALSE(turns.finish(three));
  EXPECT_EQ(turns.leave(three).waiter, nullptr);
}

TEST(PollTurns, OperationInTheMiddleOfTheListCompletes) {
  PollTurns turns;
  PollWaiter one, two, three, four;
  for (PollWaiter* waiter : {&one, &two, &three, &four}) turns.begin(*waiter);
  EXPECT_TRUE(turns.finish(three));
  EXPECT_TRUE(turns.finish(four));
  turns.finish(one);
  EXPECT_EQ(turns.leave(one).waiter, &two);
}

TEST(PollTurns, TheKeeperPollsAfterAPauseWithoutTurns) {
  PollTurns turns;
  EXPECT_EQ(turns.check_keeper(), Keeper::polls);
  PollWaiter one;
  EXPECT_FALSE(turns.begin(one)) << "the keeper polls";
  EXPECT_FALSE(turns.keeper_should_stop());
  EXPECT_TRUE(turns.finish(one));
  EXPECT_TRUE(turns.keeper_should_stop());
  EXPECT_EQ(turns.stop_keeper().waiter, nullptr);
  EXPECT_EQ(turns.check_keeper(), Keeper::pauses);
  PollWaiter two;
  EXPECT_TRUE(turns.begin(two));
  turns.finish(two);
  EXPECT_FALSE(turns.leave(two).keeper);
  EXPECT_EQ(turns.check_keeper(), Keeper::pauses) << "a thread polled meanwhile";
  EXPECT_EQ(turns.check_keeper(), Keeper::polls);
}

TEST(PollTurns, PassedTurnsCountForTheKeeper) {
  PollTurns turns;
  PollWaiter one, two;
  turns.begin(one);
  EXPECT_EQ(turns.check_keeper(), Keeper::pauses);
  turns.begin(two);
  turns.finish(one);
  turns.leave(one);
  turns.finish(two);
  turns.leave(two);
  EXPECT_EQ(turns.check_keeper(), Keeper::pauses) << "a thread polled meanwhile";
  EXPECT_EQ(turns.check_keeper(), Keeper::polls);
}

TEST(PollTurns, KeeperPassesTheTurnToASleepingThread) {
  PollTurns turns;
  turns.check_keeper();
  PollWaiter one, two;
  turns.begin(one);
  turns.begin(two);
  EXPECT_TRUE(turns.finish(one));
  EXPECT_EQ(turns.stop_keeper().waiter, &two);
  EXPECT_FALSE(turns.keeper_should_stop());
}

TEST(PollTurns, LongTurnParksTheKeeperUntilNoThreadPolls) {
  PollTurns turns;
  PollWaiter one, two;
  turns.begin(one);
  EXPECT_EQ(turns.check_keeper(), Keeper::pauses);
  EXPECT_EQ(turns.check_keeper(), Keeper::parks);
  turns.begin(two);
  turns.finish(one);
  EXPECT_FALSE(turns.leave(one).keeper) << "the other thread polls";
  turns.finish(two);
  EXPECT_TRUE(turns.leave(two).keeper);
  PollWaiter three;
  turns.begin(three);
  turns.finish(three);
  EXPECT_FALSE(turns.leave(three).keeper) << "the keeper is no longer parked";
}

TEST(PollTurns, OperationsCompletedByThreadsDoNotStopTheKeeper) {
  PollTurns turns;
  PollWaiter one, two;
  turns.begin(one);
  turns.begin(two);
  EXPECT_TRUE(turns.finish(two)) << "it sleeps";
  turns.finish(one);
  turns.leave(one);
  EXPECT_EQ(turns.check_keeper(), Keeper::pauses);
  EXPECT_EQ(turns.check_keeper(), Keeper::polls);
  EXPECT_FALSE(turns.keeper_should_stop());
}

// Invariant: while an operation is in flight, a thread polls or is being woken to poll. While no operation is
// in flight, the keeper calls check_keeper() or is being woken.
TEST(PollTurns, SomeThreadPollsWhileAnOperationIsInFlight) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 draw(seed);
    PollTurns turns;
    std::vector<std::unique_ptr<PollWaiter>> open;
    PollWaiter* poller = nullptr;
    bool keeper_polls = false;
    bool parked = false;
    const auto pass = [&](const PollTurns::Next& next) {
      poller = next.waiter;
      if (next.keeper) parked = false;
    };
    for (int step = 0; step < 400; ++step) {
      switch (draw() % 4) {
        case 0: {
          PollWaiter& waiter = *open.emplace_back(std::make_unique<PollWaiter>());
          const bool polls = turns.begin(waiter);
          ASSERT_EQ(polls, poller == nullptr && !keeper_polls);
          if (polls) poller = &waiter;
          break;
        }
        case 1: {
          if (open.empty() || (poller == nullptr && !keeper_polls)) break;
          const auto one = open.begin() + static_cast<long>(draw() % open.size());
          if ((*one)->done) break;
          ASSERT_EQ(turns.finish(**one), one->get() != poller);
          if (one->get() != poller) open.erase(one);
          break;
        }
        case 2:
          if (poller != nullptr && poller->done) {
            const PollWaiter* left = poller;
            pass(turns.leave(*poller));
            std::erase_if(open, [left](const auto& one) { return one.get() == left; });
          } else if (keeper_polls && turns.keeper_should_stop()) {
            keeper_polls = false;
            pass(turns.stop_keeper());
          }
          break;
        default:
          if (keeper_polls || parked) break;
          const Keeper order = turns.check_keeper();
          keeper_polls = order == Keeper::polls;
          parked = order == Keeper::parks;
          ASSERT_FALSE(keeper_polls && poller != nullptr);
          break;
      }
      ASSERT_TRUE(open.empty() || poller != nullptr || keeper_polls);
      ASSERT_FALSE(parked && poller == nullptr) << "no thread would ever poll";
    }
  }
}

}  // namespace
}  // namespace rtrs::nbdkit::poll_turns_test
