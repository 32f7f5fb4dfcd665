// Decides which operation may start while slots of the storage queue are scarce. Pure.
#pragma once

#include <cstdint>

namespace rtrs::daemon {

// Slots of one device, shared by all opens of the device. Must outlive the operations of the device.
struct SlotShare {
  static constexpr std::uint32_t kNone = 0xffffffffU;
  std::uint32_t used = 0;  // slots that operations of the device hold
  std::uint32_t own = 0;   // slots reserved for this device; 0 before FairSlots::enter()
  // First and last operation that waits for a slot, oldest first. The owner of the operations maintains the
  // list.
  std::uint32_t first = kNone;
  std::uint32_t last = kNone;
  // Ring of devices with waiting operations, maintained by FairSlots.
  SlotShare* next = nullptr;
  bool waiting = false;
};

// One half of the slots is reserved: each device gets kOwnSlots of its own until this half is used up. The
// other half is common: a device may take a common slot while it holds fewer common slots than are free
// (dynamic thresholds, Choudhury and Hahne, IEEE/ACM Transactions on Networking 6, 1998), so one busy device
// gets at most a quarter of all slots. If operations of some devices never end, they can use up the common
// half; other devices continue with their own slots. Waiting devices take turns.
class FairSlots {
 public:
  static constexpr std::uint32_t kOwnSlots = 4;

  explicit FairSlots(std::uint32_t slots) noexcept : unassigned_(slots / 2), common_(slots - slots / 2) {}

  std::uint32_t common() const noexcept { return common_; }  // common slots that are free
  // Reserves slots for the device, if any are left. No effect if the device has reserved slots.
  void enter(SlotShare& share) noexcept;
  // Releases the reserved slots. The device must hold no slot.
  void leave(SlotShare& share) noexcept;

  // True if a new operation may start; false while older operations of the device wait.
  bool may_start(const SlotShare& share) const noexcept { return !share.waiting && has_room(share); }
  void take(SlotShare& share) noexcept;
  void give_back(SlotShare& share) noexcept;

  // Marks the device as having waiting operations, until its turn() takes the last one.
  void wait(SlotShare& share) noexcept;
  // Returns the next waiting device that may take a slot, or nullptr, and moves it to the end of the ring.
  // The caller starts the device's first waiting operation, or calls done_waiting() if none is left.
  SlotShare* turn() noexcept;
  // `share` must be the result of the last turn() and have no waiting operation left.
  void done_waiting(SlotShare& share) noexcept;

 private:
  bool has_room(const SlotShare& share) const noexcept {
    return share.used < share.own || share.used - share.own < common_;
  }
  std::uint32_t unassigned_;  // reservable slots that no device has yet
  std::uint32_t common_;
  SlotShare* last_ = nullptr;  // last of the ring; its `next` has the next turn
};

}  // namespace rtrs::daemon
