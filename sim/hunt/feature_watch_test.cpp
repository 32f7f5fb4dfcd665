#include "sim/hunt/feature_watch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/choices/forked_choices.hpp"
#include "sim/choices/grouped_choice.hpp"

namespace rtrs::sim::hunt::feature_watch_test {
namespace {

struct Watched {
  WorldResult result;
  std::vector<Found> found;
};

Watched play(std::uint64_t seed) {
  FeatureWatch watch;
  SeededChoice choice(seed);
  choice.observe(&watch);
  WorldOptions options;
  options.seed = seed;
  World world(options, choice);
  watch.watch(world);
  Watched out;
  out.result = world.run();
  watch.end();
  out.found = watch.found();
  return out;
}

bool has(const Watched& run, FeatureKind kind) {
  return std::any_of(run.found.begin(), run.found.end(),
                     [kind](const Found& one) { return kind_of(one.feature) == kind; });
}

TEST(FeatureWatchTest, DoesNotChangeTheRun) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    WorldOptions options;
    options.seed = seed;
    EXPECT_EQ(play(seed).result.hash, run_seed(options).hash) << seed;
  }
}

TEST(FeatureWatchTest, ReportsEachFeatureOnceInOrderOfDraws) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Watched run = play(seed);
    std::set<std::uint32_t> features;
    for (const Found& one : run.found) {
      EXPECT_LT(one.feature, kFeatures);
      EXPECT_TRUE(features.insert(one.feature).second);
    }
    EXPECT_TRUE(std::is_sorted(run.found.begin(), run.found.end(),
                               [](const Found& a, const Found& b) { return a.draw < b.draw; }));
    EXPECT_EQ(play(seed).found, run.found);
  }
}

TEST(FeatureWatchTest, ReportsTheMarksOfTheRun) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const Watched run = play(seed);
    for (unsigned mark = 0; mark < kMarks; ++mark) {
      const std::uint32_t feature = feature_of(FeatureKind::mark, mark);
      const bool found = std::any_of(run.found.begin(), run.found.end(),
                                     [feature](const Found& one) { return one.feature == feature; });
      EXPECT_TRUE(found || !run.result.marks[mark]) << seed << " " << text_of(static_cast<Mark>(mark));
    }
  }
}

TEST(FeatureWatchTest, EveryKindOccursInAFewSeeds) {
  std::set<FeatureKind> kinds;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Watched run = play(seed);
    for (unsigned kind = 0; kind < kFeatureKinds; ++kind)
      if (has(run, static_cast<FeatureKind>(kind))) kinds.insert(static_cast<FeatureKind>(kind));
  }
  EXPECT_EQ(kinds.size(), kFeatureKinds);
}

// `hunt` saves a forked run as a choice log, which `run` and `shrink` play by groups and labels.
TEST(LineageTest, ForkedRunIsRepeatedByItsChoiceLog) {
  unsigned different = 0;  // a short run ends before its first fork
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    WorldOptions options;
    options.seed = seed;
    LineageChoice lineage({seed, {{500, seed + 1}, {900, seed + 2}}});
    lineage.record(true);
    const std::uint64_t hash = World(options, lineage).run().hash;
    different += hash != run_seed(options).hash ? 1 : 0;
    GroupedChoice again(lineage.choice_log());
    EXPECT_EQ(World(options, again).run().hash, hash) << seed;
  }
  EXPECT_GT(different, 10u);
}

}  // namespace
}  // namespace rtrs::sim::hunt::feature_watch_test
