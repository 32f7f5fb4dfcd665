// Coverage counters for state machines: libFuzzer treats each new pair of consecutive states as new coverage,
// in addition to code coverage.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rtrs::fuzz {

inline constexpr std::size_t kStatePairs = 1 << 14;

#ifdef __clang__
__attribute__((section("__libfuzzer_extra_counters")))
#endif
inline std::uint8_t state_pair_counters[kStatePairs];

class StatePairs {
 public:
  // `state`: a small summary of the new state; `event`: the event that caused the transition.
  void reached(std::uint64_t state, std::uint64_t event) noexcept {
    std::uint64_t pair = (last_ * 31 + event) * 0x9e3779b97f4a7c15ULL ^ state;
    pair *= 0xbf58476d1ce4e5b9ULL;
    std::uint8_t& counter = state_pair_counters[(pair >> 40) % kStatePairs];
    if (counter < 0xff) ++counter;
    last_ = state;
  }

 private:
  std::uint64_t last_ = 0;
};

}  // namespace rtrs::fuzz
