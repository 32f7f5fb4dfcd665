// Set of states that are possible given the visible events. At first it contains one known state, or all
// states if the beginning was not seen. In the latter case, the first event that determines the state sets
// it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace rtrs::spec {

template <class State>
class PossibleStates {
 public:
  PossibleStates() = default;
  explicit PossibleStates(State state) : states_{std::move(state)} {}

  bool anything() const noexcept { return states_.empty(); }
  std::size_t size() const noexcept { return states_.size(); }
  const std::vector<State>& states() const noexcept { return states_; }
  void set(State state) { states_.assign(1, std::move(state)); }
  void forget() noexcept { states_.clear(); }

  // Adds a state that may have been reached without a visible event.
  void also(const State& state) {
    if (std::find(states_.begin(), states_.end(), state) == states_.end()) states_.push_back(state);
  }
  // Replaces each state by its successors, which `move(state, next)` appends to `next`. Returns false and
  // leaves the set unchanged if no state has a successor.
  template <class Move>
  bool step(Move move) {
    if (anything()) return true;
    std::vector<State>& next = scratch();
    next.clear();
    for (const State& state : states_) move(state, next);
    if (next.empty()) return false;
    drop_equal(next);
    states_.assign(next.begin(), next.end());
    return true;
  }
  template <class Change>
  void change(Change change) {
    for (State& state : states_) change(state);
    if (states_.size() > 1) drop_equal(states_);
  }
  template <class Test>
  bool keep(Test test) {
    if (std::all_of(states_.begin(), states_.end(), test)) return true;
    return step([&](const State& state, std::vector<State>& next) {
      if (test(state)) next.push_back(state);
    });
  }
  template <class Test>
  bool any(Test test) const {
    return anything() || std::any_of(states_.begin(), states_.end(), test);
  }
  template <class Test>
  bool all(Test test) const {
    return !anything() && std::all_of(states_.begin(), states_.end(), test);
  }

 private:
  static std::vector<State>& scratch() {
    thread_local std::vector<State> next;
    return next;
  }
  static void drop_equal(std::vector<State>& states) {
    for (std::size_t at = 0; at < states.size(); ++at)
      states.erase(
          std::remove(states.begin() + static_cast<std::ptrdiff_t>(at) + 1, states.end(), states[at]),
          states.end());
  }
  std::vector<State> states_;
};

}  // namespace rtrs::spec
