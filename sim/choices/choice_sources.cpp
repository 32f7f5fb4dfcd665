#include "sim/choices/choice_sources.hpp"

namespace rtrs::sim {

std::uint32_t BytesChoice::choose(std::uint32_t n, Label) {
  std::uint64_t value = 0;
  for (std::uint64_t range = 1; range < n; range <<= 8) {
    if (bytes_.empty()) {
      exhausted_ = true;
      return 0;
    }
    value = value << 8 | bytes_.front();
    bytes_ = bytes_.subspan(1);
  }
  return static_cast<std::uint32_t>(value % n);
}

std::uint32_t OdometerChoice::choose(std::uint32_t n, Label) {
  if (at_ == digits_.size()) digits_.push_back({0, n});
  Digit& digit = digits_[at_++];
  digit.n = n;
  return digit.value;
}

bool OdometerChoice::next() {
  ++runs_;
  // Drops the digits that the last run did not draw.
  digits_.resize(at_);
  at_ = 0;
  while (!digits_.empty()) {
    Digit& last = digits_.back();
    if (++last.value < last.n) return true;
    digits_.pop_back();
  }
  return false;
}

}  // namespace rtrs::sim
