#include "sim/model/machine_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

namespace rtrs::sim::machine_world_test {
namespace {

static_assert(std::is_copy_constructible_v<MachineWorld> && std::is_copy_assignable_v<MachineWorld>);

// Applies the first enabled step until none is enabled. Returns the number of steps.
unsigned run_calm(MachineWorld& world) {
  for (unsigned steps = 0; steps < 1000; ++steps) {
    const auto next = world.enabled();
    if (next.empty()) return steps;
    world.apply(next.front());
  }
  ADD_FAILURE() << "does not end";
  return 0;
}
void run_until_connected(MachineWorld& world, unsigned paths) {
  while (world.client().connected_paths() < paths) {
    const auto next = world.enabled();
    const auto calm = std::find_if(next.begin(), next.end(), [](const MachineStep& step) {
      return step.kind != MachineStep::Kind::submit;
    });
    ASSERT_NE(calm, next.end());
    world.apply(*calm);
  }
}

// Breadth-first search over all orders of steps from `root`. Stores the steps to each world instead of the
// world, and rebuilds the world by applying them.
struct Search {
  struct Node {
    std::uint32_t parent;
    MachineStep step;
  };
  std::vector<Node> nodes{{0, {}}};
  std::size_t transitions = 0;
  std::size_t complete = 0;  // number of worlds in which everything is done
  bool exhausted = false;    // every world was expanded
  std::string found;         // violated rule, and the steps to it

  std::vector<MachineStep> steps_to(std::uint32_t node) const {
    std::vector<MachineStep> way;
    for (; node != 0; node = nodes[node].parent) way.push_back(nodes[node].step);
    std::reverse(way.begin(), way.end());
    return way;
  }
  void report(const char* rule, std::uint32_t node) {
    found = rule;
    for (const MachineStep& step : steps_to(node))
      found += std::string("\n  ") + to_string(step.kind) + " " + std::to_string(step.which);
  }
  // Stops after `cap` worlds, at a stuck world, or at the first violated rule; with `wanted`, only at this
  // rule.
  void run(const MachineWorld& root, std::size_t cap, const char* wanted = nullptr) {
    std::unordered_set<std::uint64_t> seen{root.fingerprint()};
    MachineWorld world = root;
    MachineWorld next = root;
    for (std::uint32_t at = 0; at < nodes.size(); ++at) {
      if (nodes.size() >= cap) return;
      world = root;
      for (const MachineStep& step : steps_to(at)) world.apply(step);
      const auto steps = world.enabled();
      const bool goes_on = std::any_of(steps.begin(), steps.end(), [](const MachineStep& step) {
        return step.kind != MachineStep::Kind::cut && step.kind != MachineStep::Kind::early_deadline;
      });
      if (world.done()) ++complete;
      if (!goes_on && !world.done() && world.violation() == nullptr) return report("stuck", at);
      for (const MachineStep& step : steps) {
        next = world;
        next.apply(step);
        ++transitions;
        if (!seen.insert(next.fingerprint()).second) continue;
        nodes.push_back({at, step});
        if (next.violation() != nullptr && (wanted == nullptr || std::string(next.violation()) == wanted))
          return report(next.violation(), static_cast<std::uint32_t>(nodes.size() - 1));
      }
    }
    exhausted = true;
  }
};

MachineConfig one_block(std::uint16_t cuts) {
  MachineConfig config = small_machine_config(2);
  config.cuts = cuts;
  return config;
}

TEST(MachineWorld, FirstStepsGiveAFaultFreeRun) {
  MachineConfig config = small_machine_config(2);
  config.ios = 7;
  config.blocks = 3;
  MachineWorld world(config);
  EXPECT_FALSE(world.done());
  EXPECT_GT(run_calm(world), 7U * 3U);
  EXPECT_TRUE(world.done());
  EXPECT_EQ(world.violation(), nullptr);
  EXPECT_EQ(world.acknowledged(), 7U);
  EXPECT_EQ(world.client().permits_used(), 0U);
  ASSERT_EQ(world.sessions(), 1U);
}

TEST(MachineWorld, CopyContinuesLikeTheOriginal) {
  MachineWorld world(one_block(0));
  run_until_connected(world, 1);
  MachineWorld copy = world;
  EXPECT_EQ(copy.fingerprint(), world.fingerprint());
  const std::uint64_t middle = world.fingerprint();
  run_calm(world);
  EXPECT_EQ(copy.fingerprint(), middle) << "the copy shares nothing with the original";
  run_calm(copy);
  EXPECT_TRUE(copy.done());
  EXPECT_EQ(copy.fingerprint(), world.fingerprint());
}

TEST(MachineWorld, DifferentOrdersDivergeAndComplete) {
  MachineConfig config = small_machine_config(2);
  config.blocks = 2;
  config.cuts = 1;
  MachineWorld world(config);
  run_until_connected(world, 2);
  MachineWorld other = world;
  const auto steps = world.enabled();
  ASSERT_GE(steps.size(), 2U);
  ASSERT_EQ(steps.back().kind, MachineStep::Kind::cut);
  world.apply(steps.front());
  other.apply(steps.back());
  EXPECT_NE(world.fingerprint(), other.fingerprint());
  run_calm(world);
  run_calm(other);
  EXPECT_TRUE(world.done() && other.done());
  EXPECT_NE(world.fingerprint(), other.fingerprint());
}

TEST(MachineWorld, IndependentStepsCommute) {
  MachineConfig config = small_machine_config(2);
  config.blocks = 2;
  MachineWorld world(config);
  run_until_connected(world, 2);
  world.apply({MachineStep::Kind::submit, 0});
  world.apply({MachineStep::Kind::submit, 1});
  const auto steps = world.enabled();
  ASSERT_GE(steps.size(), 2U);
  ASSERT_EQ(steps[0].kind, MachineStep::Kind::to_server);
  ASSERT_EQ(steps[1].kind, MachineStep::Kind::to_server);
  MachineWorld other = world;
  world.apply(steps[0]);
  world.apply(steps[1]);
  other.apply(steps[1]);
  other.apply(steps[0]);
  EXPECT_EQ(world.fingerprint(), other.fingerprint());
}

// Searches all orders of two writes over two paths (two connections each), completely. `connected`: number of
// paths that are connected at the start.
void expect_search_passes(const MachineConfig& config, unsigned connected, std::size_t at_least) {
  MachineWorld root(config);
  run_until_connected(root, connected);
  Search search;
  search.run(root, 300'000);
  EXPECT_EQ(search.found, "");
  EXPECT_TRUE(search.exhausted);
  EXPECT_GE(search.nodes.size(), at_least);
  EXPECT_GE(search.complete, 9U) << "worlds that differ in what was cut and replayed";
}

TEST(MachineWorld, OneCutInAnyOrderViolatesNoRule) {
  expect_search_passes(one_block(1), 0, 10'000);
}

TEST(MachineWorld, OneCutDuringTwoWritesViolatesNoRule) {
  MachineConfig config = one_block(1);
  config.blocks = 2;
  expect_search_passes(config, 2, 10'000);
}

TEST(MachineWorld, OneCutAndAnEarlyDeadlineViolateNoRule) {
  MachineConfig config = one_block(1);
  config.early_deadlines = 1;
  expect_search_passes(config, 2, 14'000);
}

// The server has no extensions, as a kernel server. The client replays at once, and the write that was in
// flight on the old path takes effect last.
TEST(MachineWorld, ReplayWithoutFenceLosesAnUpdate) {
  MachineConfig config = one_block(1);
  config.client.extensions = wire::Extensions::none;
  MachineWorld root(config);
  run_until_connected(root, 2);
  Search search;
  search.run(root, 30'000, kLostUpdate);
  EXPECT_EQ(search.found.substr(0, search.found.find('\n')), kLostUpdate) << search.found;
}

}  // namespace
}  // namespace rtrs::sim::machine_world_test
