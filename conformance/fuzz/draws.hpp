// Turns the fuzzer's input bytes into random decisions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "sim/choices/choice_sources.hpp"

namespace rtrs::fuzz {

class Draws {
 public:
  Draws(const std::uint8_t* data, std::size_t size) : choice_({data, size}) {}

  bool left() const noexcept { return !choice_.exhausted(); }
  // A number in [0, n).
  std::uint32_t below(std::uint32_t n) { return choice_.draw(n, sim::Label::test); }
  // True with probability 1/n.
  bool rarely(std::uint32_t n) { return below(n) == n - 1; }
  template <class Key, class Value>
  auto one_of(std::map<Key, Value>& map) {
    auto at = map.begin();
    if (!map.empty()) std::advance(at, below(static_cast<std::uint32_t>(map.size())));
    return at;
  }
  std::uint32_t word() { return below(1U << 16) << 16 | below(1U << 16); }

 private:
  sim::BytesChoice choice_;
};

}  // namespace rtrs::fuzz
