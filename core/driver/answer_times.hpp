// How long a client waited for the answers to its requests over one path, from the post of a request to the
// poll that saw its answer: the network and the server. Times are those of the polls, so that no clock is
// read for it. A request that is sent again over another path counts there, from then on.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/base/direction.hpp"

namespace rtrs {

class AnswerTimes {
 public:
  // Of one direction; nanoseconds. All are 0 while there was no answer.
  class Of {
   public:
    void record(std::uint64_t time) noexcept {
      ++counts_[static_cast<std::size_t>(std::bit_width(time))];
      sum_ += time;
      last_ = time;
      if (time > max_) max_ = time;
    }
    std::uint64_t count() const noexcept {
      std::uint64_t all = 0;
      for (const std::uint64_t one : counts_) all += one;
      return all;
    }
    std::uint64_t last() const noexcept { return last_; }
    std::uint64_t max() const noexcept { return max_; }
    std::uint64_t mean() const noexcept {
      const std::uint64_t all = count();
      return all == 0 ? 0 : sum_ / all;
    }
    // At least `percent` of all took no longer; less than twice as long as the fastest of which that is true.
    std::uint64_t at_most(double percent) const noexcept {
      const auto wanted = static_cast<std::uint64_t>(
          std::ceil(static_cast<double>(count()) * std::clamp(percent, 0.0, 100.0) / 100));
      std::uint64_t seen = 0;
      for (std::size_t bits = 0; bits < counts_.size(); ++bits) {
        seen += counts_[bits];
        // The longest time with so many bits.
        if (seen >= wanted && seen != 0)
          return std::min(max_, bits == 0 ? 0 : ~std::uint64_t{0} >> (64 - bits));
      }
      return max_;
    }

   private:
    std::array<std::uint64_t, 65> counts_{};  // by the number of bits of the time
    std::uint64_t sum_ = 0;
    std::uint64_t last_ = 0;
    std::uint64_t max_ = 0;
  };

  Of& of(Direction direction) noexcept { return of_[static_cast<std::size_t>(direction)]; }
  const Of& of(Direction direction) const noexcept { return of_[static_cast<std::size_t>(direction)]; }

 private:
  std::array<Of, 2> of_;
};

}  // namespace rtrs
