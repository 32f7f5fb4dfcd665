// Shows that the fence is necessary: without it, the same worlds break a rule, because data is lost.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "sim/scenarios/directed.hpp"
#include "sim/world/world.hpp"

namespace rtrs::sim::fence_test {
namespace {

constexpr std::uint64_t kSeeds = 200;

struct Loss {
  std::uint64_t seed = 0;
  Failure failure;
};

// Returns the first seed that breaks a rule, if any.
std::optional<Loss> first_loss(const char* id, bool fence) {
  const Directed* directed = find_directed(id);
  if (directed == nullptr) return Loss{0, Failure{Oracle::liveness, "no such scenario"}};
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    SeededChoice shape(~seed);
    Scenario scenario = make_directed(*directed, shape);
    if (!fence) disable_fence(scenario);
    WorldOptions options;
    options.seed = seed;
    options.scenario = &scenario;
    SeededChoice choice(seed);
    const WorldResult result = World(options, choice).run();
    if (result.failed) return Loss{seed, result.failure};
  }
  return std::nullopt;
}

bool is_loss_of_data(Oracle oracle) {
  return oracle == Oracle::history || oracle == Oracle::slot_exclusivity || oracle == Oracle::data_integrity;
}

class FenceTest : public testing::TestWithParam<const char*> {};

TEST_P(FenceTest, DataIsLostWithoutTheFence) {
  const auto loss = first_loss(GetParam(), false);
  ASSERT_TRUE(loss.has_value()) << "no seed below " << kSeeds << " fails without the fence";
  EXPECT_TRUE(is_loss_of_data(loss->failure.oracle)) << loss->failure.text;
  RecordProperty("seed", std::to_string(loss->seed));
}

TEST_P(FenceTest, EverySeedPassesWithTheFence) {
  const auto loss = first_loss(GetParam(), true);
  EXPECT_FALSE(loss.has_value()) << "seed " << loss->seed << ": " << loss->failure.text;
}

INSTANTIATE_TEST_SUITE_P(Races, FenceTest, testing::Values("L01e", "L02d"),
                         [](const auto& one) { return std::string(one.param); });

// A kernel server has no fence. The weaker rule for kernel peers holds where the strict rule fails.
TEST(KernelPeer, WritesTakeEffectOnlyInsideTheirActualWindows) {
  const auto loss = first_loss("L01f", true);
  EXPECT_FALSE(loss.has_value()) << "seed " << loss->seed << ": " << loss->failure.text;
  EXPECT_TRUE(first_loss("L01f", false).has_value());
}

}  // namespace
}  // namespace rtrs::sim::fence_test
