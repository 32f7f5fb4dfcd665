// Finds the states from which no goal state is reachable, by a backward search from the goals.
#pragma once
#include <cstddef>
#include <vector>

#include "sim/explore/state_table.hpp"

namespace rtrs::explore {

struct Edge {
  StateId from = 0;
  StateId to = 0;
};

// Returns the states with ids below `states` from which no path of edges leads to one of `goals`.
std::vector<StateId> find_dead_ends(std::vector<std::vector<Edge>> edges, const std::vector<StateId>& goals,
                                    std::size_t states);

}  // namespace rtrs::explore
