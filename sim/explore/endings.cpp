#include "sim/explore/endings.hpp"

#include <utility>

namespace rtrs::explore {

std::vector<StateId> find_dead_ends(std::vector<std::vector<Edge>> edges, const std::vector<StateId>& goals,
                                    std::size_t states) {
  // Source states of all edges, grouped by target state in ascending order.
  std::vector<std::size_t> end(states + 1);
  for (const auto& part : edges)
    for (const Edge& edge : part) ++end[edge.to + 1];
  for (std::size_t i = 0; i < states; ++i) end[i + 1] += end[i];
  std::vector<StateId> origins(end[states]);
  std::vector<std::size_t> at(end.begin(), end.end() - 1);
  for (auto& part : edges) {
    for (const Edge& edge : part) origins[at[edge.to]++] = edge.from;
    part = {};
  }
  std::vector<bool> ends(states);
  std::vector<StateId> open;
  const auto reach = [&](StateId id) {
    if (ends[id]) return;
    ends[id] = true;
    open.push_back(id);
  };
  for (const StateId goal : goals) reach(goal);
  while (!open.empty()) {
    const StateId to = open.back();
    open.pop_back();
    for (std::size_t i = end[to]; i < end[to + 1]; ++i) reach(origins[i]);
  }
  std::vector<StateId> never;
  for (std::size_t id = 0; id < states; ++id)
    if (!ends[id]) never.push_back(static_cast<StateId>(id));
  return never;
}

}  // namespace rtrs::explore
