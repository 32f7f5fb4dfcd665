// The steps of a story that an output needs.
#pragma once
#include <algorithm>
#include <vector>

#include "tools/lib/trace/sequence/story.hpp"

namespace rtrs::tools::sequence {

struct Kept {
  bool all = false;
  std::vector<Range> ranges;  // in order and disjoint

  bool holds(std::size_t number) const noexcept { return all || overlaps(number, number); }
  // True if the output needs what lasts from step `from` to step `to`; kNone: to the last step.
  bool overlaps(Index from, Index to) const noexcept {
    return all || overlaps(static_cast<std::size_t>(from),
                           to == kNone ? ~std::size_t{0} : static_cast<std::size_t>(to));
  }

 private:
  bool overlaps(std::size_t from, std::size_t to) const noexcept {
    const auto after = std::partition_point(ranges.begin(), ranges.end(),
                                            [from](const Range& one) { return one.to <= from; });
    return after != ranges.end() && after->from <= to;
  }
};

}  // namespace rtrs::tools::sequence
