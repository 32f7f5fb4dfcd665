// The states that a search has visited: 64-bit identities with the origin of each state.
// Several threads may call insert() at the same time; all other functions, reserve() included, need exclusive
// access.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace rtrs::explore {

using StateId = std::uint32_t;  // states are numbered in order of insertion, from 0

class StateTable {
 public:
  static constexpr StateId kNone = ~StateId{0};

  struct Inserted {
    StateId id = 0;
    bool fresh = false;
  };

  // Reserves space for `more` additional states. Returns false if the total would exceed `most_bytes`.
  bool reserve(std::size_t more, std::size_t most_bytes);
  // `key` must not be 0. If several states lead to a new state of the current level (id at least
  // `first_of_level`), its origin is the state with the lowest key, so that the result does not depend on the
  // timing of threads.
  Inserted insert(std::uint64_t key, StateId from, StateId first_of_level) noexcept;

  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  std::uint64_t key(StateId id) const noexcept { return parts_[id / kPart]->keys[id % kPart]; }
  StateId origin(StateId id) const noexcept { return origin_of(id).load(std::memory_order_relaxed); }
  std::size_t bytes() const noexcept;

 private:
  static constexpr std::size_t kPart = 1U << 14;
  // States do not move when the table grows.
  struct Part {
    std::array<std::uint64_t, kPart> keys;
    std::array<std::atomic<StateId>, kPart> origins;
  };
  // Upper half of the key, and id plus 1. Lower half 0: the inserting thread has not set the id yet. All 0:
  // unused.
  using Slot = std::atomic<std::uint64_t>;

  static std::uint64_t tag(std::uint64_t key) noexcept { return (key | std::uint64_t{1} << 63) >> 32 << 32; }
  std::size_t place(std::uint64_t key) const noexcept { return key & (slot_count_ - 1); }
  std::atomic<StateId>& origin_of(StateId id) const noexcept {
    return parts_[id / kPart]->origins[id % kPart];
  }
  void grow(std::size_t slots);

  std::unique_ptr<Slot[]> slots_;
  std::size_t slot_count_ = 0;  // power of two
  std::vector<std::unique_ptr<Part>> parts_;
  std::atomic<std::uint32_t> size_{0};
};

}  // namespace rtrs::explore
