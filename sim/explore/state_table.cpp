#include "sim/explore/state_table.hpp"

#include <algorithm>
#include <bit>

#include "core/base/assert.hpp"

namespace rtrs::explore {

namespace {

constexpr std::size_t kFewestSlots = std::size_t{1} << 16;

}  // namespace

std::size_t StateTable::bytes() const noexcept {
  return slot_count_ * sizeof(Slot) + parts_.size() * sizeof(Part);
}

bool StateTable::reserve(std::size_t more, std::size_t most_bytes) {
  const std::size_t need = size() + more;
  if (need >= kNone) return false;
  // At most three quarters full, so that probe sequences are short.
  const std::size_t slots = std::bit_ceil(std::max(kFewestSlots, need + need / 3 + 1));
  const std::size_t parts = (need + kPart - 1) / kPart;
  std::size_t bytes = this->bytes();
  // The old and the new slots exist at the same time while the new ones are filled.
  if (slots > slot_count_) bytes += slots * sizeof(Slot);
  if (parts > parts_.size()) bytes += (parts - parts_.size()) * sizeof(Part);
  if (bytes > most_bytes) return false;
  while (parts_.size() < parts) parts_.push_back(std::unique_ptr<Part>(new Part));
  if (slots > slot_count_) grow(slots);
  return true;
}

void StateTable::grow(std::size_t slots) {
  slots_ = std::make_unique<Slot[]>(slots);
  slot_count_ = slots;
  for (std::uint32_t id = 0; id < size(); ++id) {
    std::size_t at = place(key(id));
    while (slots_[at].load(std::memory_order_relaxed) != 0) at = (at + 1) & (slot_count_ - 1);
    slots_[at].store(tag(key(id)) | (id + 1), std::memory_order_relaxed);
  }
}

StateTable::Inserted StateTable::insert(std::uint64_t key, StateId from, StateId first_of_level) noexcept {
  for (std::size_t at = place(key);; at = (at + 1) & (slot_count_ - 1)) {
    Slot& slot = slots_[at];
    std::uint64_t found = slot.load(std::memory_order_acquire);
    if (found == 0 && slot.compare_exchange_strong(found, tag(key), std::memory_order_acq_rel)) {
      const StateId id = size_.fetch_add(1, std::memory_order_relaxed);
      RTRS_ASSERT(id < parts_.size() * kPart);
      parts_[id / kPart]->keys[id % kPart] = key;
      origin_of(id).store(from, std::memory_order_relaxed);
      slot.store(tag(key) | (id + 1), std::memory_order_release);
      return {id, true};
    }
    if ((found ^ tag(key)) >> 32 != 0) continue;
    while (static_cast<std::uint32_t>(found) == 0) found = slot.load(std::memory_order_acquire);
    const auto id = static_cast<StateId>(found) - 1;
    if (this->key(id) != key) continue;
    StateId origin = this->origin(id);
    while (id >= first_of_level && this->key(from) < this->key(origin) &&
           !origin_of(id).compare_exchange_weak(origin, from, std::memory_order_relaxed)) {
    }
    return {id, false};
  }
}

}  // namespace rtrs::explore
