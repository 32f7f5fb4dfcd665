#include "core/driver/affinity_run.hpp"

#include <gtest/gtest.h>

namespace rtrs::affinity_run_test {
namespace {

TEST(AffinityRun, SequentialRequestsKeepTheAffinity) {
  AffinityRun run;
  const std::uint16_t first = run.next(false, 4096);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(run.next(false, 4096), first);
  EXPECT_EQ(run.next(false, 1U << 20U), first) << "also for large requests";
}

TEST(AffinityRun, AffinityChangesAfterMaximumRequests) {
  AffinityRun run;
  for (std::uint16_t turn = 0; turn < 100; ++turn) {
    for (std::uint32_t i = 0; i < AffinityRun::kRequests; ++i) ASSERT_EQ(run.next(true, 512), turn);
  }
}

TEST(AffinityRun, AffinityChangesAfterMaximumBytes) {
  AffinityRun run;
  constexpr std::uint32_t kQuarter = AffinityRun::kBytes / 4;
  for (std::uint16_t turn = 0; turn < 100; ++turn) {
    for (int i = 0; i < 4; ++i) ASSERT_EQ(run.next(true, kQuarter), turn);
  }
  EXPECT_EQ(run.next(true, kQuarter + 1), 100);
  EXPECT_EQ(run.next(true, 3 * kQuarter), 101) << "one byte more than the run has left";
}

TEST(AffinityRun, EachLargeRequestGetsANewAffinity) {
  AffinityRun run;
  const std::uint16_t first = run.next(false, 0xffffffff);
  for (std::uint16_t i = 1; i < 100; ++i) ASSERT_EQ(run.next(true, 0xffffffff), first + i);
}

TEST(AffinityRun, RunRestartsWhenNothingIsInFlight) {
  AffinityRun run;
  for (std::uint32_t i = 0; i < AffinityRun::kRequests; ++i) run.next(true, 4096);
  for (std::uint32_t i = 0; i < AffinityRun::kRequests; ++i) ASSERT_EQ(run.next(i != 0, 4096), 0);
  EXPECT_EQ(run.next(true, 4096), 1);
}

TEST(AffinityRun, FlushesCountAsRequests) {
  AffinityRun run;
  for (std::uint32_t i = 0; i < AffinityRun::kRequests; ++i) ASSERT_EQ(run.next(true, 0), 0);
  EXPECT_EQ(run.next(true, 0), 1);
}

}  // namespace
}  // namespace rtrs::affinity_run_test
