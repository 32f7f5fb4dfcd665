// Ids of table slots that are never reused, so that a late message with the id of a slot's previous user
// cannot refer to its current user.
#pragma once
#include <cstdint>

namespace rtrs::rnbd {

inline constexpr unsigned kSlotBits = 8;
inline constexpr unsigned kMaxSlots = 1U << kSlotBits;
// A slot is retired after this number of uses.
inline constexpr std::uint32_t kMaxGenerations = 1U << (32 - kSlotBits);

// slot < kMaxSlots, use < kMaxGenerations. `first_generation` shifts the sequence (only its low 24 bits
// count): tables with different values are unlikely to produce equal ids.
constexpr std::uint32_t make_slot_id(std::uint32_t slot, std::uint32_t first_generation,
                                     std::uint32_t use) noexcept {
  return ((first_generation + use) << kSlotBits) | slot;
}
constexpr std::uint32_t slot_of(std::uint32_t id) noexcept {
  return id & (kMaxSlots - 1);
}

}  // namespace rtrs::rnbd
