#include "tools/urtrsd/storage/descriptor_budget.hpp"

#include <gtest/gtest.h>

namespace rtrs::daemon::descriptor_budget_test {
namespace {

std::uint64_t take_all(DescriptorBudget& budget, DescriptorBudget::Host host) {
  std::uint64_t taken = 0;
  while (budget.take(host)) ++taken;
  return taken;
}

TEST(DescriptorBudget, FilesAreLimitedToAQuarterOfTheDescriptors) {
  EXPECT_EQ(DescriptorBudget(1024).files_max(), 256U);
  EXPECT_EQ(DescriptorBudget(1).files_max(), 1U);
}

TEST(DescriptorBudget, EachHostLeavesAnEighthOfTheRemainingFiles) {
  DescriptorBudget budget(1024);
  EXPECT_EQ(take_all(budget, 1), 224U);
  EXPECT_EQ(take_all(budget, 2), 28U);
  EXPECT_EQ(take_all(budget, 3), 3U);
  EXPECT_EQ(take_all(budget, 4), 1U);
  EXPECT_EQ(take_all(budget, 5), 0U) << "no file is left";
  EXPECT_EQ(budget.files(), 256U);
  budget.give_back(4);
  EXPECT_EQ(take_all(budget, 1), 0U) << "the host has reached its limit";
  EXPECT_EQ(take_all(budget, 5), 1U);
}

TEST(DescriptorBudget, ReleasedDescriptorsAreFree) {
  DescriptorBudget budget(64);
  EXPECT_EQ(take_all(budget, 1), 14U);
  for (int i = 0; i < 14; ++i) budget.give_back(1);
  EXPECT_EQ(budget.files(), 0U);
  EXPECT_EQ(take_all(budget, 2), 14U);
}

}  // namespace
}  // namespace rtrs::daemon::descriptor_budget_test
