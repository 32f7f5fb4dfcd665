// Takes things away from a list for as long as what is left still fails.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace rtrs::tools {

struct Thinning {
  // What is left of the candidate up to its failure; nothing when it does not fail.
  std::function<std::optional<std::vector<std::uint32_t>>(const std::vector<std::uint32_t>&)> trial;
  std::function<bool()> over;  // time is
  // What goes together is tried first, one way of grouping after the other: numbers with the same answer are
  // a group; those with kNoGroup are in none.
  static constexpr std::uint32_t kNoGroup = ~std::uint32_t{0};
  using Grouping = std::function<std::uint32_t(std::uint32_t)>;
  std::vector<Grouping> groupings;
};

// False when time was over before nothing more could be taken away. `kept` fails.
bool thin_out(std::vector<std::uint32_t>& kept, const Thinning&);

}  // namespace rtrs::tools
