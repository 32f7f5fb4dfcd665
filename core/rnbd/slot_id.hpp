// Ids that name a slot of a table and are never handed out twice, so that a late message with the id of what
// was there before can never mean what is there now.
#pragma once
#include <cstdint>

namespace rtrs::rnbd {

inline constexpr unsigned kSlotBits = 8;
inline constexpr unsigned kMaxSlots = 1U << kSlotBits;
// How often one slot can be used; after that it is retired.
inline constexpr std::uint32_t kMaxGenerations = 1U << (32 - kSlotBits);

// slot < kMaxSlots, use < kMaxGenerations. `first_generation` shifts the sequence (only its low 24 bits
// count): tables that start at different ones give ids that are unlikely to meet.
constexpr std::uint32_t make_slot_id(std::uint32_t slot, std::uint32_t first_generation,
                                     std::uint32_t use) noexcept {
  return ((first_generation + use) << kSlotBits) | slot;
}
constexpr std::uint32_t slot_of(std::uint32_t id) noexcept {
  return id & (kMaxSlots - 1);
}

}  // namespace rtrs::rnbd
