// Which operation may start while the slots of the storage queue are scarce. Pure.
#pragma once

#include <cstdint>

namespace rtrs::daemon {

// The part of one device in the slots. Belongs to the opens of the device, and must outlive its operations.
struct SlotShare {
  static constexpr std::uint32_t kNone = 0xffffffffU;
  std::uint32_t used = 0;  // slots that operations of the device hold
  std::uint32_t own = 0;   // of these, slots that no other device can take; 0 before FairSlots::enter()
  // Operations that wait for a slot, oldest first. The owner of the operations links them.
  std::uint32_t first = kNone;
  std::uint32_t last = kNone;
  // Ring of the devices with waiting operations; kept by FairSlots.
  SlotShare* next = nullptr;
  bool waiting = false;
};

// Half of the slots are divided: each device has kOwnSlots that nobody else can take, until that half is
// given away. Of the common half a device may take a slot while it holds fewer common slots than are free
// (dynamic thresholds, Choudhury and Hahne, IEEE/ACM Transactions on Networking 6, 1998), so that one busy
// device gets a quarter of all slots. Devices whose operations never end can use up the common half; the
// others go on with their own slots. Devices that wait take turns.
class FairSlots {
 public:
  static constexpr std::uint32_t kOwnSlots = 4;

  explicit FairSlots(std::uint32_t slots) noexcept : undivided_(slots / 2), common_(slots - slots / 2) {}

  std::uint32_t common() const noexcept { return common_; }  // common slots that are free
  // Gives the device its own slots, as far as there are any left. No effect on one that has them.
  void enter(SlotShare& share) noexcept;
  // Takes them back. The device holds no slot.
  void leave(SlotShare& share) noexcept;

  // An operation that arrives now may start. It may not while older ones of the device wait.
  bool may_start(const SlotShare& share) const noexcept { return !share.waiting && has_room(share); }
  void take(SlotShare& share) noexcept;
  void give_back(SlotShare& share) noexcept;

  // The device has operations that wait, from now on until its turn() takes the last.
  void wait(SlotShare& share) noexcept;
  // The next device that waits and may take a slot, nullptr: none. It goes behind the others; the caller
  // starts its first operation, or calls done_waiting() when there is none left.
  SlotShare* turn() noexcept;
  // `share` was returned by the last turn() and has no waiting operation left.
  void done_waiting(SlotShare& share) noexcept;

 private:
  bool has_room(const SlotShare& share) const noexcept {
    return share.used < share.own || share.used - share.own < common_;
  }
  std::uint32_t undivided_;  // slots that are no device's own yet
  std::uint32_t common_;
  SlotShare* last_ = nullptr;  // of the ring; the one behind it is the next
};

}  // namespace rtrs::daemon
