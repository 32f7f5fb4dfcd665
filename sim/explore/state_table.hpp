// The states that a search has visited: a flat table of 64-bit identities with the origin of each state.
// Several threads may call insert() at the same time; all other functions, reserve() included, need exclusive
// access.
#pragma once
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
  std::uint64_t key(StateId id) const noexcept { return keys_[id]; }
  StateId origin(StateId id) const noexcept { return origins_[id].load(std::memory_order_relaxed); }
  std::size_t bytes() const noexcept;

 private:
  struct Slot {
    std::atomic<std::uint64_t> key{0};
    std::atomic<std::uint32_t> id{0};  // id plus 1; 0: not set yet by the inserting thread
  };
  std::size_t place(std::uint64_t key) const noexcept { return (key ^ (key >> 32)) & (slot_count_ - 1); }
  void grow(std::size_t slots);

  std::unique_ptr<Slot[]> slots_;
  std::size_t slot_count_ = 0;  // power of two
  std::unique_ptr<std::uint64_t[]> keys_;
  std::unique_ptr<std::atomic<StateId>[]> origins_;
  std::size_t room_ = 0;  // capacity of keys_ and origins_
  std::atomic<std::uint32_t> size_{0};
};

}  // namespace rtrs::explore
