#include "tools/urtrsd/storage/fair_slots.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <vector>

namespace rtrs::daemon::fair_slots_test {
namespace {

void take_all(FairSlots& slots, SlotShare& share) {
  while (slots.may_start(share)) slots.take(share);
}

TEST(FairSlots, BusyDeviceGetsAQuarterPlusItsOwnSlots) {
  FairSlots slots(1024);
  SlotShare busy;
  slots.enter(busy);
  take_all(slots, busy);
  EXPECT_EQ(busy.used, 256U + FairSlots::kOwnSlots);
  EXPECT_EQ(slots.common(), 256U);
}

TEST(FairSlots, DeviceWithoutOwnSlotsUsesCommonSlots) {
  FairSlots slots(2);
  SlotShare first;
  SlotShare late;
  slots.enter(first);
  EXPECT_EQ(first.own, 1U);
  slots.enter(late);
  EXPECT_EQ(late.own, 0U);
  EXPECT_TRUE(slots.may_start(late));
  slots.take(late);
  EXPECT_FALSE(slots.may_start(late));
  slots.give_back(late);
  slots.leave(first);
  slots.enter(late);
  EXPECT_EQ(late.own, 1U);
}

TEST(FairSlots, SingleSlotIsUsable) {
  FairSlots slots(1);
  SlotShare share;
  slots.enter(share);
  EXPECT_TRUE(slots.may_start(share));
  slots.take(share);
  EXPECT_FALSE(slots.may_start(share));
  slots.give_back(share);
  EXPECT_TRUE(slots.may_start(share));
}

TEST(FairSlots, WaitingDevicesTakeTurns) {
  FairSlots slots(8);
  std::array<SlotShare, 3> shares;
  for (SlotShare& share : shares) slots.wait(share);
  EXPECT_EQ(slots.turn(), &shares[0]);
  EXPECT_EQ(slots.turn(), &shares[1]);
  slots.done_waiting(shares[1]);
  EXPECT_EQ(slots.turn(), &shares[2]);
  EXPECT_EQ(slots.turn(), &shares[0]);
  slots.done_waiting(shares[0]);
  EXPECT_EQ(slots.turn(), &shares[2]);
  slots.done_waiting(shares[2]);
  EXPECT_EQ(slots.turn(), nullptr);
}

TEST(FairSlots, NewOperationsDoNotOvertakeWaitingOnes) {
  FairSlots slots(8);
  SlotShare share;
  slots.wait(share);
  EXPECT_FALSE(slots.may_start(share));
  ASSERT_EQ(slots.turn(), &share);
  slots.done_waiting(share);
  EXPECT_TRUE(slots.may_start(share));
}

TEST(FairSlots, DeviceOverItsShareIsSkipped) {
  FairSlots slots(8);
  SlotShare hung;
  slots.enter(hung);
  take_all(slots, hung);
  slots.wait(hung);
  EXPECT_EQ(slots.turn(), nullptr);
  SlotShare good;
  slots.wait(good);
  EXPECT_EQ(slots.turn(), &good);
}

// A device that has called enter() can always use kOwnSlots, even if operations of many other devices never
// end.
RC_GTEST_PROP(FairSlots, HungDevicesNeverUseReservedSlotsOfOthers, ()) {
  constexpr std::uint32_t kSlots = 256;
  FairSlots slots(kSlots);
  std::vector<SlotShare> hung(31);
  SlotShare good;
  slots.enter(good);
  for (SlotShare& share : hung) slots.enter(share);
  for (int step = 0; step < 500; ++step) {
    SlotShare& share = hung[*rc::gen::inRange<std::size_t>(0, hung.size())];
    if (slots.may_start(share)) slots.take(share);
    for (std::uint32_t i = 0; i < FairSlots::kOwnSlots; ++i) {
      RC_ASSERT(slots.may_start(good));
      slots.take(good);
    }
    for (std::uint32_t i = 0; i < FairSlots::kOwnSlots; ++i) slots.give_back(good);
  }
  std::uint32_t used = 0;
  for (const SlotShare& share : hung) used += share.used;
  RC_ASSERT(used <= kSlots - FairSlots::kOwnSlots);
}

}  // namespace
}  // namespace rtrs::daemon::fair_slots_test
