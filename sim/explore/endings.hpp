// Which states can never get where they should: backwards from where that is.
#pragma once
#include <cstddef>
#include <vector>

#include "sim/explore/state_table.hpp"

namespace rtrs::explore {

struct Edge {
  StateId from = 0;
  StateId to = 0;
};

// The states below `states` from which no edges lead to one of `goals`.
std::vector<StateId> never_ending(std::vector<std::vector<Edge>> edges, const std::vector<StateId>& goals,
                                  std::size_t states);

}  // namespace rtrs::explore
