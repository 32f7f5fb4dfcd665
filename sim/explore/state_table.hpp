// The states that a search has seen: a flat table of 64-bit identities, and how each was reached first.
// insert() may be called from several threads; everything else, and reserve(), from one at a time.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rtrs::explore {

using StateId = std::uint32_t;  // in the order of arrival, from 0

class StateTable {
 public:
  static constexpr StateId kNone = ~StateId{0};

  struct Inserted {
    StateId id = 0;
    bool fresh = false;
  };

  // Makes room for `more` further states. False when that would take more than `most_bytes` in all.
  bool reserve(std::size_t more, std::size_t most_bytes);
  // `key` is not 0. A state that is as new as `first_of_level` and was reached from several states keeps the
  // one with the lowest key as its origin, so that ways do not depend on who was faster.
  Inserted insert(std::uint64_t key, StateId from, StateId first_of_level) noexcept;

  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  std::uint64_t key(StateId id) const noexcept { return keys_[id]; }
  StateId origin(StateId id) const noexcept { return origins_[id].load(std::memory_order_relaxed); }
  std::size_t bytes() const noexcept;

 private:
  struct Slot {
    std::atomic<std::uint64_t> key{0};
    std::atomic<std::uint32_t> id{0};  // plus 1; 0: its writer is about to set it
  };
  std::size_t place(std::uint64_t key) const noexcept { return (key ^ (key >> 32)) & (slot_count_ - 1); }
  void grow(std::size_t slots);

  std::unique_ptr<Slot[]> slots_;
  std::size_t slot_count_ = 0;  // a power of two
  std::unique_ptr<std::uint64_t[]> keys_;
  std::unique_ptr<std::atomic<StateId>[]> origins_;
  std::size_t room_ = 0;  // of keys_ and origins_
  std::atomic<std::uint32_t> size_{0};
};

}  // namespace rtrs::explore
