// Response times of one path and direction, from the post of a request to the poll that saw its response:
// network plus server. Uses the times that are passed to poll(), so that no clock is read. A request that is
// resent over another path counts for that path, from the resend on.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace rtrs {

// In nanoseconds. All values are 0 before the first response.
class AnswerTimes {
 public:
  void record(std::uint64_t time) noexcept {
    // Index: number of bits of the time, minus one. `| 1` avoids 0, for which __builtin_clzll() is undefined.
    ++counts_[63U - static_cast<unsigned>(__builtin_clzll(time | 1U))];
    ++count_;
    sum_ += time;
    if (time > max_) max_ = time;
  }
  std::uint64_t count() const noexcept { return count_; }
  std::uint64_t max() const noexcept { return max_; }
  std::uint64_t mean() const noexcept { return count_ == 0 ? 0 : sum_ / count_; }
  // Upper bound of the given percentile; less than twice the true value.
  std::uint64_t at_most(double percent) const noexcept {
    const double wanted = std::ceil(static_cast<double>(count_) * std::clamp(percent, 0.0, 100.0) / 100);
    const auto rank = std::max<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1);
    std::uint64_t seen = 0;
    for (std::size_t at = 0; at < counts_.size(); ++at) {
      seen += counts_[at];
      if (seen >= rank) return std::min(max_, longest_of(at));
    }
    return max_;
  }

 private:
  static constexpr std::uint64_t longest_of(std::size_t bucket) noexcept {
    return ~std::uint64_t{0} >> (63 - bucket);
  }

  std::array<std::uint64_t, 64> counts_{};  // index: number of bits of the time, minus one
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace rtrs
