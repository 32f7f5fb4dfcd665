// Removes items from a list as long as the remaining items still fail.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace rtrs::tools {

struct Thinning {
  // Tries a candidate. Returns its items up to the failure, or nullopt if it does not fail.
  std::function<std::optional<std::vector<std::uint32_t>>(const std::vector<std::uint32_t>&)> trial;
  std::function<bool()> over;  // returns true when time has run out
  // Ways to divide the items into groups. thin_out() uses one grouping after the other and first tries to
  // remove whole groups. A grouping returns the group of an item; kNoGroup: none.
  static constexpr std::uint32_t kNoGroup = ~std::uint32_t{0};
  using Grouping = std::function<std::uint32_t(std::uint32_t)>;
  std::vector<Grouping> groupings;
};

// Shortens `kept`, which must fail. Returns false if time ran out before it was minimal.
bool thin_out(std::vector<std::uint32_t>& kept, const Thinning&);

}  // namespace rtrs::tools
