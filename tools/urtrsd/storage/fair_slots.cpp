#include "tools/urtrsd/storage/fair_slots.hpp"

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"

namespace rtrs::daemon {

void FairSlots::enter(SlotShare& share) noexcept {
  if (share.own != 0 || share.used != 0) return;
  share.own = std::min(kOwnSlots, unassigned_);
  unassigned_ -= share.own;
}

void FairSlots::leave(SlotShare& share) noexcept {
  RTRS_ASSERT(share.used == 0 && !share.waiting);
  unassigned_ += std::exchange(share.own, 0);
}

void FairSlots::take(SlotShare& share) noexcept {
  RTRS_ASSERT(has_room(share));
  if (share.used >= share.own) --common_;
  ++share.used;
}

void FairSlots::give_back(SlotShare& share) noexcept {
  RTRS_ASSERT(share.used != 0);
  --share.used;
  if (share.used >= share.own) ++common_;
}

void FairSlots::wait(SlotShare& share) noexcept {
  if (share.waiting) return;
  share.waiting = true;
  share.next = last_ == nullptr ? &share : last_->next;
  if (last_ != nullptr) last_->next = &share;
  last_ = &share;
}

SlotShare* FairSlots::turn() noexcept {
  if (last_ == nullptr) return nullptr;
  const SlotShare* end = last_;
  do {
    last_ = last_->next;
    if (has_room(*last_)) return last_;
  } while (last_ != end);
  return nullptr;
}

void FairSlots::done_waiting(SlotShare& share) noexcept {
  RTRS_ASSERT(last_ == &share && share.waiting);
  SlotShare* before = &share;
  while (before->next != &share) before = before->next;
  before->next = share.next;
  last_ = before == &share ? nullptr : before;
  share.next = nullptr;
  share.waiting = false;
}

}  // namespace rtrs::daemon
