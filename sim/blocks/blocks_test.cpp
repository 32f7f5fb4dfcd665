// Every scenario of block devices with some seeds, and the rules against disks that break them.
#include <gtest/gtest.h>

#include <set>

#include "sim/blocks/block_scenarios.hpp"

namespace rtrs::sim {
namespace {

TEST(Blocks, EveryScenarioBreaksNoRule) {
  for (const BlockScenario& one : block_scenarios())
    for (std::uint64_t seed = 0; seed < 5; ++seed)
      EXPECT_EQ(play_blocks(one, seed).failure, "") << one.id << " seed " << seed;
}

TEST(Blocks, ASeedGivesOneRun) {
  const BlockScenario& one = *find_block_scenario("BD02");
  EXPECT_EQ(play_blocks(one, 7).hash, play_blocks(one, 7).hash);
  EXPECT_NE(play_blocks(one, 7).hash, play_blocks(one, 8).hash);
}

TEST(Blocks, IdsAreThereOnce) {
  std::set<std::string_view> ids;
  for (const BlockScenario& one : block_scenarios()) EXPECT_TRUE(ids.insert(one.id).second) << one.id;
}

// A disk whose content changes by itself, and one that forgets what it was told to keep.
void forgotten(BlockWorld& w) {
  const auto device = static_cast<DeviceHandle>(w.map("a"));
  const auto write = w.submit(device, Opcode::write, 0, 4, true);
  w.until("it is written", [&] { return w.is_over(write); });
  w.disk("a").now[1] = 0;
  w.submit(device, Opcode::read, 0, 4);
}
void not_durable(BlockWorld& w) {
  const auto device = static_cast<DeviceHandle>(w.map("a"));
  const auto write = w.submit(device, Opcode::write, 0, 4, true);
  w.until("it is written", [&] { return w.is_over(write); });
  w.disk("a").now.assign(64, 0);
  w.disk("a").durable.assign(64, 0);
  w.crash_server();
}
void left_open(BlockWorld& w) {
  ++w.disk("b").holders;
}

TEST(Blocks, RulesAreBrokenByWhatBreaksThem) {
  const auto failure = [](void (*play)(BlockWorld&)) {
    return play_blocks(BlockScenario{"X", "", {}, play}, 1).failure;
  };
  EXPECT_NE(failure(forgotten).find("what belongs there"), std::string::npos);
  EXPECT_NE(failure(not_durable).find("is durable, and lost"), std::string::npos);
  EXPECT_NE(failure(left_open).find("nobody holds b open"), std::string::npos);
}

}  // namespace
}  // namespace rtrs::sim
