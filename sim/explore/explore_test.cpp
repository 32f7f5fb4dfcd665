#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/proto/jitter.hpp"
#include "sim/explore/canonical.hpp"
#include "sim/explore/configurations.hpp"
#include "sim/explore/counter_example.hpp"
#include "sim/explore/endings.hpp"
#include "sim/explore/packed_world.hpp"
#include "sim/explore/search.hpp"

namespace rtrs::explore::explore_test {
namespace {

using sim::MachineStep;
using sim::MachineWorld;

SearchResult search_of(const char* name, bool fence, unsigned threads = 1) {
  SearchOptions options;
  options.threads = threads;
  return search(root_of(*configuration(name), fence), options);
}

TEST(PackedWorld, RoundTripKeepsTheWorld) {
  Jitter random(7);
  for (const char* name : {"cuts", "operator", "closing", "reads", "crash"}) {
    const MachineWorld root = root_of(*configuration(name), true);
    MachineWorld unpacked = root;
    for (unsigned walk = 0; walk < 20; ++walk) {
      MachineWorld world = root;
      for (auto steps = world.enabled(); !steps.empty(); steps = world.enabled()) {
        world.apply(steps[random.up_to(steps.size() - 1)]);
        ASSERT_EQ(world.violation(), nullptr);
        std::vector<std::uint8_t> bytes;
        pack(world, {}, bytes);
        EXPECT_LT(bytes.size(), 1000U);
        unpack(bytes, {}, unpacked);
        ASSERT_EQ(unpacked.fingerprint(), world.fingerprint());
        ASSERT_EQ(canonical(unpacked), canonical(world));
        ASSERT_EQ(unpacked.enabled(), steps = world.enabled());
      }
    }
  }
}

// undo(), the memo of canonical() and the sections of pack() reuse what a step did not change. Their result
// must be the same as that of a full copy.
TEST(PackedWorld, WorldAfterUndoAndAStepEqualsACopyAfterTheStep) {
  Jitter random(8);
  for (const char* name : {"cold", "operator", "closing", "reads", "crash"}) {
    MachineWorld world = root_of(*configuration(name), true);
    MachineWorld next = world;
    for (auto steps = world.enabled(); !steps.empty(); steps = world.enabled()) {
      std::vector<std::uint8_t> before;
      pack(world, {}, before);
      ClientMemo memo;
      for (const MachineStep& step : steps) {
        MachineWorld copy = world;
        copy.apply(step);
        ASSERT_EQ(copy.violation(), nullptr);
        next.undo(world);
        ASSERT_EQ(next.fingerprint(), world.fingerprint());
        next.apply(step);
        ASSERT_EQ(next.fingerprint(), copy.fingerprint());
        ASSERT_EQ(canonical(next, &memo), canonical(copy));
        std::vector<std::uint8_t> packed;
        std::vector<std::uint8_t> whole;
        pack(next, before, packed);
        pack(copy, {}, whole);
        ASSERT_EQ(packed, whole);
        MachineWorld unpacked = world;
        const Unpacked changed = unpack(packed, before, unpacked);
        ASSERT_EQ(unpacked.fingerprint(), copy.fingerprint());
        next.undo(world);
        next.undo(unpacked, changed.client, changed.server);
        ASSERT_EQ(next.fingerprint(), copy.fingerprint());
        next = world;
      }
      world.apply(steps[random.up_to(steps.size() - 1)]);
      next = world;
    }
  }
}

TEST(Endings, OnlyStatesWithoutAWayToAGoalAreDeadEnds) {
  constexpr StateId kStates = 5000;
  std::vector<EdgeLog> edges(2);
  // Two chains: even ids lead to the next higher even id, odd ids to the next lower odd id. Most states also
  // have an edge to themselves.
  for (StateId id = 0; id + 2 < kStates; ++id) {
    const std::vector<StateId> to = id % 2 == 0 ? std::vector<StateId>{id + 2, id} : std::vector<StateId>{id};
    edges[0].add(id, to);
    if (id % 2 == 1) edges[1].add(id + 2, std::vector<StateId>{id});
  }
  EXPECT_EQ(find_dead_ends(edges, {kStates - 2, 1}, kStates), std::vector<StateId>());
  const auto dead = find_dead_ends(edges, {4000, 4001}, kStates);
  ASSERT_EQ(dead.size(), (kStates - 2 - 4000) / 2U + 4001 / 2U);
  EXPECT_EQ(dead.front(), 1U);
  EXPECT_EQ(dead.back(), kStates - 2);
}

// The observable future of a state: its verdict, and the identities of its successors.
struct Future {
  bool finished = false;
  std::string violation;
  std::set<std::pair<MachineStep::Kind, std::uint64_t>> next;
  bool operator==(const Future&) const = default;
};
Future future_of(const MachineWorld& world) {
  Future future{world.finished(), world.violation() == nullptr ? "" : world.violation(), {}};
  for (const MachineStep& step : world.enabled()) {
    MachineWorld next = world;
    next.apply(step);
    future.next.emplace(step.kind, canonical(next));
  }
  return future;
}

// Visits every state with a different fingerprint: states with the same canonical identity must have the same
// futures.
void expect_same_futures(const Configuration& configuration, bool fence) {
  std::unordered_map<std::uint64_t, Future> futures;
  std::set<std::uint64_t> seen;
  std::vector<std::vector<std::uint8_t>> open(1);
  MachineWorld world = root_of(configuration, fence);
  pack(world, {}, open[0]);
  seen.insert(world.fingerprint());
  std::size_t merged = 0;
  for (std::size_t at = 0; at < open.size(); ++at) {
    unpack(open[at], {}, world);
    open[at] = {};
    const Future future = future_of(world);
    const auto [known, fresh] = futures.emplace(canonical(world), future);
    ASSERT_EQ(known->second, future);
    merged += fresh ? 0 : 1;
    for (const MachineStep& step : world.enabled()) {
      MachineWorld next = world;
      next.apply(step);
      if (next.violation() != nullptr || !seen.insert(next.fingerprint()).second) continue;
      open.emplace_back();
      pack(next, {}, open.back());
    }
  }
  EXPECT_GT(merged, open.size() / 8) << "the reduction merges states";
}

TEST(Canonical, MergedStatesHaveTheSameFutures) {
  expect_same_futures(*configuration("small"), true);
}
TEST(Canonical, MergedStatesWithoutFenceHaveTheSameFutures) {
  expect_same_futures(*configuration("small"), false);
}
TEST(Canonical, MergedStatesWithTwoBlocksAndCloseHaveTheSameFutures) {
  Configuration one = *configuration("closing");
  one.machines.paths = 1;
  one.connected_first = 1;
  expect_same_futures(one, true);
}
TEST(Canonical, MergedStatesWithReadsAndACrashHaveTheSameFutures) {
  Configuration one = *configuration("crash");
  one.machines.cuts = 0;
  expect_same_futures(one, true);
}
TEST(Canonical, RejectsConfigurationsThatItCannotReduce) {
  sim::MachineConfig config = sim::small_machine_config(2);
  EXPECT_EQ(why_not_canonical(config), nullptr);
  config.client.reconnect_jitter = seconds(2);
  EXPECT_STREQ(why_not_canonical(config), "delays are drawn");
  EXPECT_EQ(search(MachineWorld(config), {}).stopped_by,
            "the states of this world cannot be reduced: delays are drawn");
}

TEST(Search, VisitsEveryStateOfASmallWorld) {
  const SearchResult result = search_of("small", true);
  EXPECT_TRUE(result.exhausted()) << result.stopped_by;
  EXPECT_EQ(result.states, 8'818U);
  EXPECT_EQ(result.transitions, 31'043U);
  EXPECT_EQ(result.depth, 31U);
  EXPECT_TRUE(result.findings.empty());
}

TEST(Search, FindsBothRacesWithoutTheFence) {
  const SearchResult result = search_of("small", false);
  EXPECT_EQ(result.states, 9'348U);
  ASSERT_NE(result.finding(sim::kChunkRace), nullptr);
  EXPECT_EQ(result.finding(sim::kChunkRace)->way.size(), 24U);
  ASSERT_NE(result.finding(sim::kLostUpdate), nullptr);
  EXPECT_EQ(result.finding(sim::kLostUpdate)->way.size(), 26U);
  EXPECT_EQ(result.finding(kStuck), nullptr);
}

TEST(Search, ResultDoesNotDependOnTheNumberOfThreads) {
  const SearchResult one = search_of("small", false, 1);
  const SearchResult three = search_of("small", false, 3);
  EXPECT_EQ(one.states, three.states);
  EXPECT_EQ(one.transitions, three.transitions);
  ASSERT_EQ(one.findings.size(), three.findings.size());
  for (std::size_t i = 0; i < one.findings.size(); ++i) {
    EXPECT_EQ(one.findings[i].rule, three.findings[i].rule);
    EXPECT_EQ(one.findings[i].states, three.findings[i].states);
    EXPECT_EQ(one.findings[i].way.size(), three.findings[i].way.size());
  }
}

TEST(Search, FindsPlantedBugs) {
  for (const Configuration& one : configurations()) {
    if (one.violated_rule.empty()) continue;
    const SearchResult result = search(root_of(one, true), {});
    const Finding* finding = result.finding(one.violated_rule.c_str());
    ASSERT_NE(finding, nullptr) << one.name;
    EXPECT_FALSE(finding->way.empty());
    EXPECT_EQ(replay({one.name, true, one.violated_rule, finding->way}).broken, one.violated_rule);
  }
}

TEST(Search, StopsAtTheMemoryLimit) {
  SearchOptions options;
  options.most_bytes = 6U << 20;
  const SearchResult result = search(root_of(*configuration("cuts"), true), options);
  EXPECT_EQ(result.stopped_by, "the memory that it may use is full");
  EXPECT_FALSE(result.exhausted());
  EXPECT_LE(result.bytes, 2 * options.most_bytes);
  EXPECT_EQ(result.finding(kStuck), nullptr) << "states that were not expanded are not judged";
}

TEST(CounterExample, IsReplayedFromItsFile) {
  const SearchResult result = search_of("small", false);
  const Finding* finding = result.finding(sim::kLostUpdate);
  ASSERT_NE(finding, nullptr);
  const CounterExample example{"small", false, finding->rule, finding->way};
  const ReadExample read = from_json(to_json(example));
  ASSERT_TRUE(read.example) << read.error;
  EXPECT_EQ(read.example->steps, finding->way);
  const Replayed played = replay(*read.example);
  EXPECT_TRUE(played.possible);
  EXPECT_EQ(played.broken, sim::kLostUpdate);
  EXPECT_NE(played.diagram.find("client --- X --- server"), std::string::npos) << played.diagram;
  EXPECT_NE(played.diagram.find("broken rule: no older write"), std::string::npos) << played.diagram;
}

TEST(CounterExample, RejectsInvalidFiles) {
  EXPECT_EQ(from_json("[").error, "it is not a JSON object");
  EXPECT_EQ(from_json(R"({"configuration":"x","fence":true,"rule":"","steps":[]})").error,
            "unknown configuration 'x'");
  EXPECT_EQ(
      from_json(R"({"configuration":"small","fence":true,"rule":"","steps":[{"kind":"jump","which":0}]})")
          .error,
      "unknown step 'jump'");
  EXPECT_FALSE(from_json(R"({"configuration":"small"})").error.empty());
  CounterExample impossible{"small", true, "", {{MachineStep::Kind::storage, 3}}};
  EXPECT_FALSE(replay(impossible).possible);
}

}  // namespace
}  // namespace rtrs::explore::explore_test
