// Finds the states from which no goal state is reachable.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/explore/state_table.hpp"

namespace rtrs::explore {

// The edges of a graph of states. Each number is stored as a difference of ids, so that most numbers take one
// byte.
class EdgeLog {
 public:
  void add(StateId from, std::span<const StateId> to);
  std::size_t bytes() const noexcept { return parts_.size() * kPart; }
  // Marks states from which one or more edges lead to a marked state. Returns false if it marked none. Call
  // it until it returns false to mark all such states.
  bool spread(std::vector<bool>& marked);

 private:
  static constexpr std::size_t kPart = 1U << 14;
  struct Part {
    std::vector<std::uint8_t> bytes;
    StateId last = 0;     // `from` of the last entry
    bool marked = false;  // all states with edges in this part are marked
  };
  std::vector<Part> parts_;
};

// Returns the states with ids below `states` from which no path of edges leads to one of `goals`.
std::vector<StateId> find_dead_ends(std::vector<EdgeLog> edges, const std::vector<StateId>& goals,
                                    std::size_t states);

}  // namespace rtrs::explore
