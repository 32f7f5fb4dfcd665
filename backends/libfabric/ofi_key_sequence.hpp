// Generates remote keys that do not repeat. One key does not reveal others.
#pragma once
#include <array>
#include <cstdint>

namespace rtrs::ofi {

// Produces all 32-bit values except 0, each once before any repeats: encrypts a counter with a permutation
// that `secret` selects.
class KeySequence {
 public:
  explicit KeySequence(std::uint64_t secret) noexcept {
    for (std::uint32_t& round : rounds_) {
      secret = secret * 6364136223846793005u + 1442695040888963407u;
      round = static_cast<std::uint32_t>(secret >> 32);
    }
  }
  std::uint32_t next() noexcept {
    std::uint32_t key = 0;
    while (key == 0) key = permute(counter_++);
    return key;
  }

 private:
  std::uint32_t permute(std::uint32_t value) const noexcept {
    std::uint32_t left = value >> 16;
    std::uint32_t right = value & 0xffff;
    for (const std::uint32_t round : rounds_) {
      const std::uint32_t mixed = (right * 0x9e3779b1u ^ round) * 0x85ebca6bu;
      const std::uint32_t next = left ^ ((mixed >> 13) & 0xffff);
      left = right;
      right = next;
    }
    return left << 16 | right;
  }

  std::array<std::uint32_t, 6> rounds_{};
  std::uint32_t counter_ = 0;
};

}  // namespace rtrs::ofi
