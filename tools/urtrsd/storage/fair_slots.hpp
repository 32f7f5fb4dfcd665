// Decides which operation may start when storage queue slots are scarce. Uses no clock, thread or IO.
#pragma once

#include <cstdint>

namespace rtrs::daemon {

// Slots of one device, shared by all its opens. Must outlive the operations of the device.
struct SlotShare {
  static constexpr std::uint32_t kNone = 0xffffffffU;
  std::uint32_t used = 0;  // slots that operations of the device hold now
  std::uint32_t own = 0;   // slots reserved for this device; 0 before FairSlots::enter()
  // First and last of the operations that wait for a slot, oldest first. The owner of the operations
  // maintains this list.
  std::uint32_t first = kNone;
  std::uint32_t last = kNone;
  // Next device in the ring of devices with waiting operations; maintained by FairSlots.
  SlotShare* next = nullptr;
  bool waiting = false;
};

// Half of the slots is reserved: each device gets kOwnSlots of them, until none are left. The other half is
// common. A device may take a common slot while it holds fewer common slots than are free (dynamic
// thresholds, Choudhury and Hahne, IEEE/ACM Transactions on Networking 6, 1998), so a single busy device gets
// at most half of the common slots. If operations of some devices never end, these devices may use up the
// common half; the other devices continue with their reserved slots. Waiting devices take turns.
class FairSlots {
 public:
  static constexpr std::uint32_t kOwnSlots = 4;

  explicit FairSlots(std::uint32_t slots) noexcept : unassigned_(slots / 2), common_(slots - slots / 2) {}

  std::uint32_t common() const noexcept { return common_; }  // number of free common slots
  // Reserves slots for the device if any are left. Does nothing if the device has reserved slots already.
  void enter(SlotShare& share) noexcept;
  // Releases the slots reserved for the device. No operation of the device may hold a slot.
  void leave(SlotShare& share) noexcept;

  // True if a new operation may start. False while older operations of the device wait.
  bool may_start(const SlotShare& share) const noexcept { return !share.waiting && has_room(share); }
  void take(SlotShare& share) noexcept;
  void give_back(SlotShare& share) noexcept;

  // Adds the device to the ring of devices with waiting operations. done_waiting() removes it.
  void wait(SlotShare& share) noexcept;
  // Returns the next waiting device for which a slot is free, or nullptr, and moves the device to the end of
  // the ring. The caller starts the oldest waiting operation of the device, or calls done_waiting() if no
  // operation waits any more.
  SlotShare* turn() noexcept;
  // `share` must be the result of the last turn() and must have no waiting operations.
  void done_waiting(SlotShare& share) noexcept;

 private:
  bool has_room(const SlotShare& share) const noexcept {
    return share.used < share.own || share.used - share.own < common_;
  }
  std::uint32_t unassigned_;  // reservable slots that are not reserved for any device
  std::uint32_t common_;
  SlotShare* last_ = nullptr;  // end of the ring; the search of turn() begins at `last_->next`
};

}  // namespace rtrs::daemon
