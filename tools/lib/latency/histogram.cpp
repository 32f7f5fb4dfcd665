#include "tools/lib/latency/histogram.hpp"

#include <algorithm>
#include <cmath>

namespace rtrs::tools {

void Histogram::merge(const Histogram& other) noexcept {
  rtrs::Histogram<7>::merge(other);
  real_sum_ += other.real_sum_;
  sum_of_squares_ += other.sum_of_squares_;
}

void Histogram::clear() noexcept {
  rtrs::Histogram<7>::clear();
  real_sum_ = 0;
  sum_of_squares_ = 0;
}

double Histogram::mean() const noexcept {
  return count() == 0 ? 0 : real_sum_ / static_cast<double>(count());
}

double Histogram::stdev() const noexcept {
  if (count() == 0) return 0;
  return std::sqrt(std::max(0.0, sum_of_squares_ / static_cast<double>(count()) - mean() * mean()));
}

}  // namespace rtrs::tools
