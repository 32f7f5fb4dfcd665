// A set of possible states: what the visible events leave open stays open. Begins as one known state, or as
// all of them, when the beginning was not seen; the latter ends with the first event that tells.
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

  // A state that may also be, without any event having been seen.
  void also(const State& state) {
    if (std::find(states_.begin(), states_.end(), state) == states_.end()) states_.push_back(state);
  }
  // `move(state, next)` pushes the successors of a state. False, and the set unchanged, where no state has
  // one.
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
  template <class Test>
  bool keep(Test test) {
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
