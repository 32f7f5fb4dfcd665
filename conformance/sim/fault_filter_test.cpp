// Tests that faults can be excluded by name, and slow or fast clocks.
#include "sim/world/fault_filter.hpp"

#include <gtest/gtest.h>

#include <string>

#include "sim/world/world.hpp"

namespace rtrs::sim::fault_filter_test {
namespace {

WorldResult play(std::uint64_t seed, const FaultFilter* filter) {
  WorldOptions options;
  options.seed = seed;
  options.filter = filter;
  return run_seed(options);
}

TEST(FaultFilter, LeavesOutOnlyTheNamedFaults) {
  std::string why;
  const auto filter = without("crash,crash_orderly,operator,cm_lost", why);
  ASSERT_TRUE(filter) << why;
  EXPECT_TRUE(filter->off[static_cast<unsigned>(FaultClass::crash)]);
  EXPECT_FALSE(filter->off[static_cast<unsigned>(FaultClass::flap)]);
  EXPECT_TRUE(filter->operators);
  EXPECT_FALSE(filter->storage_errors);
  EXPECT_EQ(filter->calm, std::vector<Label>{Label::cm_lost});
  std::uint64_t crashed = 0, others = 0, before = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    before += play(seed, nullptr).faults[static_cast<unsigned>(FaultClass::crash)];
    const WorldResult result = play(seed, &*filter);
    EXPECT_FALSE(result.failed) << seed << ": " << result.failure.text;
    crashed += result.faults[static_cast<unsigned>(FaultClass::crash)];
    others += result.faults[static_cast<unsigned>(FaultClass::cut_both)];
  }
  EXPECT_GT(before, 0U);
  EXPECT_EQ(crashed, 0U);
  EXPECT_GT(others, 0U);
}

TEST(FaultFilter, OnlyLeavesOutAllOtherFaults) {
  std::string why;
  const auto filter = only("device_gone", why);
  ASSERT_TRUE(filter) << why;
  std::uint64_t gone = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const WorldResult result = play(seed, &*filter);
    EXPECT_FALSE(result.failed) << seed << ": " << result.failure.text;
    for (unsigned fault = 0; fault < kFaultClasses; ++fault) {
      const auto which = static_cast<FaultClass>(fault);
      if (which == FaultClass::device_gone) {
        gone += result.faults[fault];
      } else {
        EXPECT_EQ(result.faults[fault], 0U) << to_string(which);
      }
    }
  }
  EXPECT_GT(gone, 0U);
}

TEST(FaultFilter, UnknownNameIsAnErrorThatTellsWhereNamesAreListed) {
  std::string why;
  EXPECT_FALSE(without("crash,crahs", why));
  EXPECT_EQ(why, "unknown fault 'crahs'; `urtrs-sim list` prints all names");
  EXPECT_FALSE(only("cm_lost", why));  // cm_lost is a label, not a fault class
  EXPECT_FALSE(without("crash,,flap", why));
}

TEST(FaultFilter, BlockDevicesCanBeLeftOut) {
  std::string why;
  const auto filter = without("block_device", why);
  ASSERT_TRUE(filter) << why;
  unsigned devices = 0, with_caches = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SeededChoice choice(seed);
    Scenario scenario = draw_scenario(choice);
    const WorkloadOptions before = scenario.workload;
    if (!before.block_device && before.disks == 0) continue;
    ++devices;
    if (before.disks != 0) ++with_caches;
    const std::uint32_t sectors = scenario.storage.sectors;
    take_out(*filter, scenario);
    EXPECT_FALSE(scenario.workload.block_device);
    EXPECT_EQ(scenario.workload.disks, 0U);
    if (before.block_device) {
      EXPECT_LT(scenario.storage.sectors, sectors);
    }
  }
  EXPECT_GE(devices, 15U);
  EXPECT_GE(with_caches, 5U);
}

TEST(FaultFilter, ZeroedLabelKeepsTheOtherDraws) {
  SeededChoice plain(5), inner(5);
  const Label calm[] = {Label::torn_write};
  PartlyZeroChoice filtered(inner, calm);
  for (unsigned draw = 0; draw < 200; ++draw) {
    const std::uint32_t torn = plain.draw(1000, Label::torn_write);
    EXPECT_EQ(filtered.draw(1000, Label::torn_write), 0U) << torn;
    EXPECT_EQ(filtered.draw(1000, Label::latency), plain.draw(1000, Label::latency));
  }
}

TEST(ClockRate, TrueTimeIsTheFirstMomentOfALocalTime) {
  for (const ClockRate rate :
       {ClockRate{1, 1}, ClockRate{1, 2}, ClockRate{2, 1}, ClockRate{4, 5}, ClockRate{9, 8}})
    for (const Nanos local : {Nanos{0}, Nanos{1}, Nanos{7}, Nanos{1'000'000'007}, seconds(86'400) + 3}) {
      const Nanos moment = rate.true_time(local);
      EXPECT_GE(rate.local_time(moment), local);
      if (moment != 0) {
        EXPECT_LT(rate.local_time(moment - 1), local);
      }
    }
  EXPECT_EQ((ClockRate{1, 2}.true_time(kNever)), kNever);
}

}  // namespace
}  // namespace rtrs::sim::fault_filter_test
