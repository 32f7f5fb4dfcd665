// O29: a client path becomes connected only from an attempt. The path drains before it waits, closes or
// starts another attempt, because a queue pair that is reused too early would still complete work of the last
// attempt.
#include <array>
#include <string>

#include "sim/oracles/client_oracle.hpp"

namespace rtrs::sim {

namespace {

constexpr bool may_follow(PathState before, PathState after) noexcept {
  const bool drains = after == PathState::draining || after == PathState::closing;
  if (after == PathState::connected) return before == PathState::connecting;
  if (before == PathState::connected) return drains;
  if (before == PathState::connecting) return drains || after == PathState::connecting;
  return true;
}

class Transitions : public ClientOracle {
 public:
  explicit Transitions(Judge& judge) : judge_(judge) {}

  void started() override { states_.fill(PathState::absent); }
  void path(const PathChanged& change, bool, Nanos now) override {
    if (change.path >= states_.size()) return;
    PathState& state = states_[change.path];
    if (!may_follow(state, change.state))
      judge_.fail(Oracle::transitions, now,
                  "path " + std::to_string(change.path) + " went from " + to_string(state) + " to " +
                      to_string(change.state));
    state = change.state;
  }

 private:
  Judge& judge_;
  std::array<PathState, kMaxPaths> states_{};
};

}  // namespace

std::unique_ptr<ClientOracle> make_transitions(Judge& judge) {
  return std::make_unique<Transitions>(judge);
}

}  // namespace rtrs::sim
