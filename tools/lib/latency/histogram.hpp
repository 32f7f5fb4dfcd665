// Histogram of the tools that measure latencies. Its buckets are finer than those of the library's histogram,
// and it computes a standard deviation. An object takes 58 KiB.
#pragma once
#include "core/base/histogram.hpp"

namespace rtrs::tools {

class Histogram : public rtrs::Histogram<7> {
 public:
  void record(std::uint64_t value) noexcept {
    rtrs::Histogram<7>::record(value);
    const auto real = static_cast<double>(value);
    real_sum_ += real;
    sum_of_squares_ += real * real;
  }
  void merge(const Histogram& other) noexcept;
  void clear() noexcept;
  // mean() and stdev() return 0 while nothing is recorded.
  double mean() const noexcept;
  double stdev() const noexcept;  // standard deviation of the population, not of a sample

 private:
  double real_sum_ = 0;  // sum of the values; cannot overflow, unlike sum()
  double sum_of_squares_ = 0;
};

}  // namespace rtrs::tools
