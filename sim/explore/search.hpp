// Breadth-first search of a small world over all orders of its steps, with the real protocol state machines.
// The search visits all states, and finds the shortest sequence of steps to each violated rule and the states
// from which the application's requests can never be answered.
//
// States, transitions and sequences are the same for any number of threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

struct Progress {
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  std::uint64_t waiting = 0;  // states not expanded yet
  unsigned depth = 0;
  double seconds = 0;
  std::size_t bytes = 0;
};

struct SearchOptions {
  unsigned threads = 1;
  // Limit in bytes for the table, waiting states and edges together.
  std::size_t most_bytes = std::size_t{2} << 30;
  std::uint64_t most_states = ~std::uint64_t{0};
  bool reduced = true;        // identity by canonical(); false: by fingerprint(), for comparison
  bool judge_endings = true;  // stores every edge, to find states that can never finish
  std::function<void(const Progress&)> progress;  // called occasionally from the calling thread; may be empty
  std::function<bool()> stopped;                  // returns true to end the search; may be empty
};

// Violations of one rule.
struct Finding {
  std::string rule;
  std::uint64_t states = 0;           // number of states that violate the rule
  std::vector<sim::MachineStep> way;  // shortest sequence of steps from the root
};
// Rule for stuck states: a state violates it if no order of steps answers every request, although no other
// rule is violated.
inline constexpr const char* kStuck = "every request can still be answered";

struct SearchResult {
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  std::uint64_t finished = 0;  // states in which every request is answered
  unsigned depth = 0;          // steps to the last new state
  double seconds = 0;
  std::size_t bytes = 0;   // maximum memory used
  std::string stopped_by;  // why the search is incomplete; empty: complete
  std::vector<Finding> findings;

  bool exhausted() const noexcept { return stopped_by.empty(); }
  const Finding* finding(const char* rule) const;
};

SearchResult search(const sim::MachineWorld& root, const SearchOptions&);

}  // namespace rtrs::explore
