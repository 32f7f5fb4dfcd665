// How long requests took: before any path was lost, while one was missing, and after all were back.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "core/proto/ids.hpp"

namespace rtrs::nbdkit {

// Counts in buckets of 1/8 of a power of two: a percentile is at most 12.5 % too high.
class LatencyHistogram {
 public:
  void add(Nanos latency) noexcept {
    ++buckets_[bucket_of(latency)];
    ++count_;
    sum_ += latency;
    most_ = latency > most_ ? latency : most_;
  }
  std::uint64_t count() const noexcept { return count_; }
  Nanos mean() const noexcept { return count_ == 0 ? 0 : sum_ / count_; }
  Nanos most() const noexcept { return most_; }
  // The latency that `thousandths` of all requests did not exceed; 0 when there was none.
  Nanos percentile(unsigned thousandths) const noexcept {
    const std::uint64_t rank = (count_ * thousandths + 999) / 1000;
    std::uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < kBuckets; ++bucket) {
      seen += buckets_[bucket];
      if (seen >= rank && seen != 0) return end_of(bucket) < most_ ? end_of(bucket) : most_;
    }
    return most_;
  }

 private:
  static constexpr unsigned kParts = 8;
  static constexpr unsigned kBuckets = 64 * kParts;
  static unsigned bucket_of(Nanos latency) noexcept {
    if (latency < kParts) return static_cast<unsigned>(latency);
    const unsigned power = static_cast<unsigned>(std::bit_width(latency)) - 1;  // at least 3
    return (power - 2) * kParts + static_cast<unsigned>((latency >> (power - 3)) & (kParts - 1));
  }
  static Nanos end_of(unsigned bucket) noexcept {
    if (bucket < kParts) return bucket;
    const unsigned power = bucket / kParts + 2;
    return ((Nanos{kParts} + bucket % kParts + 1) << (power - 3)) - 1;
  }
  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  Nanos sum_ = 0;
  Nanos most_ = 0;
};

enum class Phase : std::uint8_t { before, during, after };
constexpr const char* to_string(Phase phase) noexcept {
  return phase == Phase::before ? "before" : phase == Phase::during ? "during" : "after";
}

class LatencyByPhase {
 public:
  // `all_connected`: of the paths that should be.
  void set_paths(bool all_connected, bool any_lost) noexcept {
    if (any_lost) {
      phase_ = Phase::during;
    } else if (phase_ == Phase::during && all_connected) {
      phase_ = Phase::after;
    }
  }
  Phase phase() const noexcept { return phase_; }
  // A request counts for the worst phase that it saw: one that waited for a path counts as during.
  void add(Phase began, Nanos latency) noexcept {
    const bool crossed = began == Phase::during || phase_ == Phase::during;
    of_[static_cast<unsigned>(crossed ? Phase::during : phase_)].add(latency);
  }
  const LatencyHistogram& of(Phase phase) const noexcept { return of_[static_cast<unsigned>(phase)]; }

 private:
  std::array<LatencyHistogram, 3> of_;
  Phase phase_ = Phase::before;
};

}  // namespace rtrs::nbdkit
