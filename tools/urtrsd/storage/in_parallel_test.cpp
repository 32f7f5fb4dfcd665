#include "tools/urtrsd/storage/in_parallel.hpp"

#include <gtest/gtest.h>

#include <future>
#include <memory>

namespace rtrs::daemon::in_parallel_test {
namespace {

constexpr std::chrono::hours kLong{1};

TEST(InParallel, NoTasksReturnsAtOnce) {
  EXPECT_TRUE(in_parallel({}, kLong).empty());
}

TEST(InParallel, TasksRunInParallel) {
  auto reached = std::make_shared<std::promise<void>>();
  const auto wait = [waited = reached->get_future().share()] { waited.wait(); };
  const auto signal = [reached] { reached->set_value(); };
  EXPECT_EQ(in_parallel({wait, signal}, kLong, 2), (std::vector<bool>{true, true}));
}

TEST(InParallel, ThreadsRunQueuedTasks) {
  auto done = std::make_shared<std::vector<int>>();
  const auto task = [done](int number) { return [done, number] { done->push_back(number); }; };
  EXPECT_EQ(in_parallel({task(0), task(1), task(2)}, kLong, 1), (std::vector<bool>{true, true, true}));
  EXPECT_EQ(*done, (std::vector<int>{0, 1, 2}));
}

TEST(InParallel, HangingTaskIsAbandoned) {
  auto go = std::make_shared<std::promise<void>>();
  auto gone = std::make_shared<std::promise<void>>();
  auto after = gone->get_future();
  const auto hangs = [waited = go->get_future().share()] { waited.wait(); };
  const auto behind = [gone] { gone->set_value(); };
  EXPECT_EQ(in_parallel({hangs, behind}, std::chrono::milliseconds(1), 1), (std::vector<bool>{false, false}));
  go->set_value();
  after.wait();  // the queued task runs after the time limit
}

}  // namespace
}  // namespace rtrs::daemon::in_parallel_test
