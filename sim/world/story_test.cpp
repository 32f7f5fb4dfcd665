#include "sim/world/story.hpp"

#include <gtest/gtest.h>

namespace rtrs::sim::story_test {

TEST(Story, CutLinkOfOneClientDoesNotDisturbTheOther) {
  const WorldResult result = play_story({.clients = 2, .paths = 1}, R"(
    cut client=1 path=0
    write client=1 number=8
    write client=2 number=8 sector=8
    completed number=1
    lost client=1 path=0
    connected client=2 path=0
    heal client=1 path=0
    connected client=1 path=0
    completed number=2
    unharmed client=2
    spared
  )");
  EXPECT_FALSE(result.failed) << result.failure.text;
}

TEST(Story, ViolatedExpectationFailsTheRun) {
  EXPECT_TRUE(play_story({}, "break_path\nlost\nunharmed").failed);
}

TEST(Story, InvalidStepFailsTheRun) {
  const WorldResult result = play_story({}, "unplugged");
  EXPECT_TRUE(result.failed);
  EXPECT_FALSE(result.failure.text.empty());
}

}  // namespace rtrs::sim::story_test
