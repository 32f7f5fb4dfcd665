#include "sim/hunt/corpus.hpp"

#include <gtest/gtest.h>

namespace rtrs::sim::hunt::corpus_test {
namespace {

const std::uint32_t kCommon = feature_of(FeatureKind::mark, 1);
const std::uint32_t kRare = feature_of(FeatureKind::mark, 2);

// Runs rounds of tasks. Each run has the common feature at draw 10; every 300th new seed has the rare one at
// draw 20. Returns all tasks.
std::vector<Task> search(Corpus& corpus, unsigned rounds) {
  std::vector<Task> all;
  for (unsigned round = 0; round < rounds; ++round) {
    for (const Task& task : corpus.plan(4)) {
      for (std::size_t run = 0; run < task.runs(); ++run) {
        std::vector<Found> found;
        if (task.is_new() || task.place.draw < 10) found.push_back({kCommon, 10});
        if (task.is_new() && task.place.lineage.seed % 300 == 0) found.push_back({kRare, 20});
        corpus.add(task, run, found);
        corpus.count_events(task, 100);
      }
      all.push_back(task);
    }
  }
  return all;
}

TEST(CorpusTest, BeginsWithNewSeedsInOrder) {
  Corpus corpus(1000);
  std::uint64_t next = 1000;
  for (const Task& task : search(corpus, 10)) {
    EXPECT_TRUE(task.is_new());
    EXPECT_EQ(task.place.lineage, (Lineage{next++, {}}));
  }
}

TEST(CorpusTest, ForksRareFeaturesWhereTheyOccurred) {
  Corpus corpus(900);
  std::size_t forks = 0;
  for (const Task& task : search(corpus, 300)) {
    if (task.is_new()) continue;
    ++forks;
    EXPECT_EQ(task.feature, kRare) << "a feature of each run is not worth a fork";
    EXPECT_EQ(task.place.draw, 20u);
    EXPECT_EQ(task.place.lineage.seed % 300, 0u);
    EXPECT_GT(task.runs(), 1u);
    EXPECT_EQ(task.lineage_of(0).forks, (std::vector<Fork>{{20, task.seeds[0]}}));
  }
  EXPECT_GT(forks, 10u);
}

TEST(CorpusTest, NewSeedsKeepTheirShareOfTheEvents) {
  Corpus corpus(0);
  search(corpus, 200);
  const CorpusState& state = corpus.state();
  EXPECT_GT(state.fork_events, 0u);
  EXPECT_GE(state.new_runs_events, state.fork_events);
}

TEST(CorpusTest, SameSeedGivesTheSameSearch) {
  Corpus one(7), other(7), third(8);
  EXPECT_EQ(search(one, 100), search(other, 100));
  EXPECT_EQ(one.state(), other.state());
  EXPECT_NE(search(one, 10), search(third, 10));
}

TEST(CorpusTest, RestoredStateContinuesTheSearch) {
  Corpus whole(7), first(7), second(0);
  search(whole, 60);
  search(first, 60);
  ASSERT_EQ(second.restore(first.state()), nullptr);
  EXPECT_EQ(search(second, 40), search(whole, 40));
}

TEST(CorpusTest, DamagedStateIsRefused) {
  Corpus corpus(7);
  search(corpus, 200);
  const CorpusState good = corpus.state();
  const auto damaged = [&good](auto damage) {
    CorpusState state = good;
    damage(state);
    Corpus other(1);
    return other.restore(state) != nullptr && other.state() == Corpus(1).state();
  };
  EXPECT_TRUE(damaged([](CorpusState& state) { state.features[kRare].count = 0; }));
  EXPECT_TRUE(damaged([](CorpusState& state) { state.features[kRare].count = state.runs + 1; }));
  EXPECT_TRUE(damaged([](CorpusState& state) { state.features[kFeatures].count = 1; }));
  EXPECT_TRUE(damaged([](CorpusState& state) { state.features[kRare].places.resize(100); }));
  EXPECT_TRUE(damaged([](CorpusState& state) { state.features[kRare].places = {{{7, {{30, 1}}}, 20}}; }));
  EXPECT_TRUE(damaged([](CorpusState& state) {
    state.features[kRare].places = {{{7, {{9, 1}, {8, 1}}}, 20}};
  }));
}

// A new feature that a fork reaches becomes the place of later forks, with the whole chain.
TEST(CorpusTest, ForksOfForksKeepTheChain) {
  Corpus corpus(0);
  const std::uint32_t deeper = feature_of(FeatureKind::order, 5);
  bool seen = false;
  for (unsigned round = 0; round < 300 && !seen; ++round) {
    for (const Task& task : corpus.plan(4)) {
      for (std::size_t run = 0; run < task.runs(); ++run) {
        std::vector<Found> found;
        if (task.is_new() && task.place.lineage.seed % 300 == 0) found.push_back({kRare, 20});
        if (task.feature == kRare && corpus.state().features.count(deeper) == 0)
          found.push_back({deeper, 35});
        corpus.add(task, run, found);
        corpus.count_events(task, 100);
      }
      if (task.is_new() || task.feature != deeper) continue;
      seen = true;
      ASSERT_EQ(task.place.lineage.forks.size(), 1u);
      EXPECT_EQ(task.place.lineage.forks[0].draw, 20u);
      EXPECT_EQ(task.place.draw, 35u);
      EXPECT_EQ(task.lineage_of(2).forks.size(), 2u);
    }
  }
  EXPECT_TRUE(seen);
}

}  // namespace
}  // namespace rtrs::sim::hunt::corpus_test
