#include "sim/explore/state_table.hpp"

#include <algorithm>
#include <bit>

#include "core/base/assert.hpp"

namespace rtrs::explore {

namespace {

constexpr std::size_t kFewest = std::size_t{1} << 16;
constexpr std::size_t kPerState = sizeof(std::uint64_t) + sizeof(StateId);

}  // namespace

std::size_t StateTable::bytes() const noexcept {
  return slot_count_ * sizeof(Slot) + room_ * kPerState;
}

bool StateTable::reserve(std::size_t more, std::size_t most_bytes) {
  const std::size_t need = size() + more;
  if (need >= kNone) return false;
  if (need <= room_) return true;
  // At most half full, so that probe sequences are short.
  const std::size_t slots = std::bit_ceil(std::max(need, kFewest) * 2);
  const std::size_t room = slots / 2;
  // The old and the new table exist at the same time while the old one is copied.
  if (slots * sizeof(Slot) + room * kPerState + bytes() > most_bytes) return false;
  auto keys = std::make_unique<std::uint64_t[]>(room);
  auto origins = std::make_unique<std::atomic<StateId>[]>(room);
  std::copy_n(keys_.get(), size(), keys.get());
  for (std::size_t id = 0; id < size(); ++id) origins[id] = origin(static_cast<StateId>(id));
  keys_ = std::move(keys);
  origins_ = std::move(origins);
  room_ = room;
  grow(slots);
  return true;
}

void StateTable::grow(std::size_t slots) {
  slots_ = std::make_unique<Slot[]>(slots);
  slot_count_ = slots;
  for (std::uint32_t id = 0; id < size(); ++id) {
    std::size_t at = place(keys_[id]);
    while (slots_[at].key.load(std::memory_order_relaxed) != 0) at = (at + 1) & (slot_count_ - 1);
    slots_[at].key.store(keys_[id], std::memory_order_relaxed);
    slots_[at].id.store(id + 1, std::memory_order_relaxed);
  }
}

StateTable::Inserted StateTable::insert(std::uint64_t key, StateId from, StateId first_of_level) noexcept {
  for (std::size_t at = place(key);; at = (at + 1) & (slot_count_ - 1)) {
    Slot& slot = slots_[at];
    std::uint64_t found = slot.key.load(std::memory_order_acquire);
    if (found == 0 && slot.key.compare_exchange_strong(found, key, std::memory_order_acq_rel)) {
      const StateId id = size_.fetch_add(1, std::memory_order_relaxed);
      RTRS_ASSERT(id < room_);
      keys_[id] = key;
      origins_[id].store(from, std::memory_order_relaxed);
      slot.id.store(id + 1, std::memory_order_release);
      return {id, true};
    }
    if (found != key) continue;
    std::uint32_t id = 0;
    while ((id = slot.id.load(std::memory_order_acquire)) == 0) {
    }
    --id;
    StateId origin = origins_[id].load(std::memory_order_relaxed);
    while (id >= first_of_level && keys_[from] < keys_[origin] &&
           !origins_[id].compare_exchange_weak(origin, from, std::memory_order_relaxed)) {
    }
    return {id, false};
  }
}

}  // namespace rtrs::explore
