// Generates keys that do not repeat. One key does not reveal others.
#pragma once
#include <array>
#include <cstdint>

namespace rtrs {

// Produces every 32-bit value except 0 once before a value repeats: encrypts a counter with a permutation
// that the secret selects.
class KeySequence {
 public:
  static constexpr unsigned kRounds = 10;
  using Secret = std::array<std::uint64_t, kRounds>;  // must be random

  explicit KeySequence(const Secret& secret) noexcept : secret_(secret) {}
  std::uint32_t next() noexcept {
    std::uint32_t key = 0;
    while (key == 0) key = permute(counter_++);
    return key;
  }

 private:
  std::uint32_t permute(std::uint32_t value) const noexcept {
    std::uint32_t left = value >> 16;
    std::uint32_t right = value & 0xffff;
    for (const std::uint64_t round : secret_) {
      const std::uint32_t next = left ^ mix(right ^ round);
      left = right;
      right = next;
    }
    return left << 16 | right;
  }
  static std::uint32_t mix(std::uint64_t value) noexcept {
    value = (value ^ (value >> 33)) * 0xff51afd7ed558ccdU;
    value = (value ^ (value >> 33)) * 0xc4ceb9fe1a85ec53U;
    return static_cast<std::uint32_t>((value ^ (value >> 33)) & 0xffff);
  }

  Secret secret_;
  std::uint32_t counter_ = 0;
};

}  // namespace rtrs
