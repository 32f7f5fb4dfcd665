#include "tools/lib/latency/histogram.hpp"

#include <algorithm>
#include <cmath>

namespace rtrs::tools {

void Histogram::merge(const Histogram& other) noexcept {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  sum_of_squares_ += other.sum_of_squares_;
}

void Histogram::clear() noexcept {
  std::fill(counts_.begin(), counts_.end(), 0);
  count_ = 0;
  min_ = ~std::uint64_t{0};
  max_ = 0;
  sum_ = 0;
  sum_of_squares_ = 0;
}

double Histogram::mean() const noexcept {
  return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
}

double Histogram::stdev() const noexcept {
  if (count_ == 0) return 0;
  const double average = mean();
  return std::sqrt(std::max(0.0, sum_of_squares_ / static_cast<double>(count_) - average * average));
}

std::uint64_t Histogram::within(std::uint64_t value) const noexcept {
  return std::clamp(value, min_, max_);
}

std::uint64_t Histogram::percentile(double percent) const noexcept {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(static_cast<double>(count_) * std::clamp(percent, 0.0, 100.0) / 100);
  const auto rank = std::max<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1);
  if (rank >= count_) return max_;
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= rank) return within(middle_of(i));
  }
  return max_;
}

std::uint64_t Histogram::most_frequent() const noexcept {
  if (count_ == 0) return 0;
  const auto fullest = std::max_element(counts_.begin(), counts_.end());
  return within(middle_of(static_cast<std::size_t>(fullest - counts_.begin())));
}

}  // namespace rtrs::tools
