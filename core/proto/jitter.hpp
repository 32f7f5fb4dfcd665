// Random numbers for reconnect delays. The generator is part of the state and seeded by the configuration, so
// that a recorded run can be replayed.
#pragma once
#include <cstdint>

#include "core/base/reflect.hpp"

namespace rtrs {

class Jitter {
 public:
  Jitter() = default;
  explicit Jitter(std::uint64_t seed) noexcept : state_(seed) {}
  // Returns a uniform number in [0, bound]; 0 for bound 0. Uses splitmix64; the modulo bias does not matter
  // for delays.
  std::uint64_t up_to(std::uint64_t bound) noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    z ^= z >> 31;
    return bound == ~std::uint64_t{0} ? z : z % (bound + 1);
  }
  bool operator==(const Jitter&) const = default;
  RTRS_FIELDS(state_)

 private:
  std::uint64_t state_ = 0;
};

}  // namespace rtrs
