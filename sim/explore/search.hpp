// Every order of everything that may happen in a small world, breadth first: the real machines, all states,
// the shortest way to each broken rule, and the states from which the application's requests can never be
// answered.
//
// The same states, transitions and ways come out for any number of threads.
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
  std::uint64_t waiting = 0;  // states that were not stepped yet
  unsigned depth = 0;
  double seconds = 0;
  std::size_t bytes = 0;
};

struct SearchOptions {
  unsigned threads = 1;
  std::size_t most_bytes = std::size_t{2} << 30;  // table, waiting states and edges together
  std::uint64_t most_states = ~std::uint64_t{0};
  bool reduced = true;        // identities by canonical(); else by fingerprint(), for comparison
  bool judge_endings = true;  // keeps every edge, to find what can never finish
  std::function<void(const Progress&)> progress;  // called now and then, from the calling thread
  std::function<bool()> stopped;                  // asked so too: whether to end; may be empty
};

// What a search found against one rule.
struct Finding {
  std::string rule;
  std::uint64_t states = 0;           // in which it is broken
  std::vector<sim::MachineStep> way;  // a shortest one, from the root
};
// Rule of the states from which no order of steps answers every request, though nothing else breaks.
inline constexpr const char* kStuck = "every request can still be answered";

struct SearchResult {
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  std::uint64_t finished = 0;  // states in which every request is answered
  unsigned depth = 0;          // steps to the last new state
  double seconds = 0;
  std::size_t bytes = 0;   // most that were used
  std::string stopped_by;  // why not everything was seen; empty: all of it was
  std::vector<Finding> findings;

  bool exhausted() const noexcept { return stopped_by.empty(); }
  const Finding* finding(const char* rule) const;
};

SearchResult search(const sim::MachineWorld& root, const SearchOptions&);

}  // namespace rtrs::explore
