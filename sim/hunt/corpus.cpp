#include "sim/hunt/corpus.hpp"

#include <algorithm>
#include <array>

#include "sim/oracles/digest.hpp"

namespace rtrs::sim::hunt {

namespace {

// Number of new seeds before the first fork: bugs that every second seed finds need no guidance, and features
// are rare only compared with a number of runs.
constexpr std::uint64_t kFirstSeeds = 64;
// Afterwards new seeds simulate at least this part of all events, in percent.
constexpr std::uint64_t kNewPercent = 75;
// Forks of one place at a time; the run up to the place is simulated once for all of them.
constexpr std::size_t kForksAtOnce = 8;
// Places kept for each feature.
constexpr std::size_t kMostPlaces = 4;
// A longer chain of forks is not continued.
constexpr std::size_t kMostForks = 12;
// Features that more than one run in this many reaches are not rare.
constexpr std::uint64_t kRareOneIn = 100;

// Shares of the kinds of features, by FeatureKind. With forks at rare pairs of marks,
// the search found planted bugs faster than with the other kinds (conformance/mutants/hunt_measured.txt).
constexpr std::array<std::uint64_t, kFeatureKinds> kShares{1, 1, 10, 1, 1, 1, 1, 1};

}  // namespace

Lineage Task::lineage_of(std::size_t run) const {
  Lineage lineage = place.lineage;
  if (!is_new()) lineage.forks.push_back({place.draw, seeds[run]});
  return lineage;
}

Corpus::Corpus(std::uint64_t seed) {
  state_.seed = state_.next_seed = seed;
}

const char* Corpus::restore(CorpusState state) {
  for (const auto& [number, feature] : state.features) {
    if (number >= kFeatures) return "a feature has an invalid number";
    if (feature.count > state.runs || feature.count == 0) return "a feature has an invalid count";
    if (feature.places.size() > kMostPlaces) return "a feature has too many places";
    for (const Place& place : feature.places) {
      const auto& forks = place.lineage.forks;
      if (forks.size() > kMostForks) return "a place has too many forks";
      if (!std::is_sorted(forks.begin(), forks.end(),
                          [](const Fork& a, const Fork& b) { return a.draw < b.draw; }))
        return "a place has forks that are not in order";
      if (!forks.empty() && place.draw < forks.back().draw) return "a place is before its last fork";
    }
  }
  state_ = std::move(state);
  return nullptr;
}

std::uint64_t Corpus::random_number() {
  return mix(state_.seed ^ mix(++state_.drawn));
}

Task Corpus::new_seed() {
  Task task;
  task.place.lineage.seed = state_.next_seed++;
  return task;
}

double Corpus::weight_of(const Feature& feature) const noexcept {
  if (feature.places.empty() || feature.count * kRareOneIn > state_.runs) return 0;
  return 1.0 / (static_cast<double>(feature.count) * static_cast<double>(1 + feature.tries));
}

Task Corpus::fork_somewhere() {
  std::array<double, kFeatureKinds> sums{};
  for (const auto& [number, feature] : state_.features)
    sums[static_cast<unsigned>(kind_of(number))] += weight_of(feature);
  std::uint64_t shares = 0;
  for (unsigned kind = 0; kind < kFeatureKinds; ++kind) shares += sums[kind] > 0 ? kShares[kind] : 0;
  if (shares == 0) return new_seed();
  std::uint64_t share = random_below(shares);
  unsigned kind = 0;
  for (; kind + 1 < kFeatureKinds; ++kind) {
    const std::uint64_t mine = sums[kind] > 0 ? kShares[kind] : 0;
    if (share < mine) break;
    share -= mine;
  }
  constexpr std::uint64_t kSteps = std::uint64_t{1} << 32;
  double at = sums[kind] * static_cast<double>(random_below(kSteps)) / static_cast<double>(kSteps);
  std::uint32_t chosen = 0;
  for (const auto& [number, feature] : state_.features) {
    const double weight = weight_of(feature);
    if (static_cast<unsigned>(kind_of(number)) != kind || weight <= 0) continue;
    chosen = number;
    at -= weight;
    if (at < 0) break;
  }
  Feature& feature = state_.features[chosen];
  feature.tries += kForksAtOnce;
  Task task;
  task.feature = chosen;
  task.place = feature.places[random_below(feature.places.size())];
  for (std::size_t run = 0; run < kForksAtOnce; ++run) task.seeds.push_back(random_number());
  return task;
}

std::vector<Task> Corpus::plan(std::size_t count) {
  std::vector<Task> tasks;
  while (tasks.size() < count) {
    const bool first = state_.next_seed - state_.seed < kFirstSeeds;
    const std::uint64_t events = state_.new_runs_events + state_.fork_events;
    const bool behind = state_.new_runs_events * 100 < events * kNewPercent;
    tasks.push_back(first || behind ? new_seed() : fork_somewhere());
  }
  return tasks;
}

void Corpus::count_events(const Task& task, std::uint64_t events) noexcept {
  (task.is_new() ? state_.new_runs_events : state_.fork_events) += events;
}

// Keeps each place with the same probability, whenever it was found.
void Corpus::keep_place(Feature& feature, Place place) {
  if (place.lineage.forks.size() >= kMostForks) return;
  if (feature.places.size() < kMostPlaces) {
    feature.places.push_back(std::move(place));
    return;
  }
  const std::uint64_t at = random_below(feature.count);
  if (at < kMostPlaces) feature.places[at] = std::move(place);
}

void Corpus::add(const Task& task, std::size_t run, std::span<const Found> found) {
  ++state_.runs;
  const Lineage lineage = task.lineage_of(run);
  bool fresh = false;
  for (const Found& one : found) {
    Feature& feature = state_.features[one.feature];
    fresh = fresh || feature.count == 0;
    ++feature.count;
    // A place before the fork would be a place of the run that was forked.
    if (task.is_new() || one.draw > task.place.draw) keep_place(feature, {lineage, one.draw});
  }
  if (!fresh || task.is_new()) return;
  const auto at = state_.features.find(task.feature);
  if (at != state_.features.end()) at->second.tries /= 2;
}

}  // namespace rtrs::sim::hunt
