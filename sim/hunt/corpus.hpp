// Corpus of a guided search: the rare features that runs reached, and where in which run each first occurred.
// The search forks these runs there. Everything is determined by the seed and by the order of the calls.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/choices/forked_choices.hpp"
#include "sim/hunt/feature_watch.hpp"

namespace rtrs::sim::hunt {

// A place in a run, from which other rests can be drawn.
struct Place {
  Lineage lineage;
  std::uint64_t draw = 0;
  bool operator==(const Place&) const = default;
};

struct Feature {
  std::uint64_t count = 0;  // number of runs that reached the feature after their last fork
  std::uint64_t tries = 0;  // number of forks at its places, less the reward for new features
  std::vector<Place> places;
  bool operator==(const Feature&) const = default;
};

// A group of runs: either one new seed, or several forks at one place.
struct Task {
  Place place;
  std::vector<std::uint64_t> seeds;  // of the rests; empty: a new seed, which is played from its beginning
  std::uint32_t feature = 0;         // feature whose place this is
  bool is_new() const noexcept { return seeds.empty(); }
  std::size_t runs() const noexcept { return is_new() ? 1 : seeds.size(); }
  Lineage lineage_of(std::size_t run) const;
  bool operator==(const Task&) const = default;
};

// Everything that determines the rest of the search.
struct CorpusState {
  std::uint64_t seed = 0;       // first seed
  std::uint64_t next_seed = 0;  // next new seed
  std::uint64_t drawn = 0;      // number of random numbers used
  std::uint64_t runs = 0;
  std::uint64_t new_runs_events = 0, fork_events = 0;  // simulated events of new seeds, and of forks
  std::map<std::uint32_t, Feature> features;
  bool operator==(const CorpusState&) const = default;
};

class Corpus {
 public:
  // New seeds are `seed`, `seed` + 1, and so on.
  explicit Corpus(std::uint64_t seed);
  // Returns an error text if the state violates an invariant; the corpus is then unchanged.
  const char* restore(CorpusState state);

  // Returns the next `count` tasks. They do not depend on each other, so that they may be run in any order.
  std::vector<Task> plan(std::size_t count);
  // Adds a run of a task; call in the order of the plan.
  void add(const Task& task, std::size_t run, std::span<const Found> found);
  void count_events(const Task& task, std::uint64_t events) noexcept;

  const CorpusState& state() const noexcept { return state_; }

 private:
  Task new_seed();
  Task fork_somewhere();
  std::uint64_t random_number();
  std::uint64_t random_below(std::uint64_t n) { return n == 0 ? 0 : random_number() % n; }
  double weight_of(const Feature& feature) const noexcept;
  void keep_place(Feature& feature, Place place);

  CorpusState state_;
};

}  // namespace rtrs::sim::hunt
