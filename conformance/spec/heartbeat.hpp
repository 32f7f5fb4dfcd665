// The heartbeat of a path as the protocol describes it. One DeadlineReached serves several timers, and which
// of them ran is not recorded: until something shows it, a tick may and may not have been.
#pragma once
#include <cstdint>
#include <optional>

#include "conformance/spec/findings.hpp"
#include "conformance/spec/possible_states.hpp"

namespace rtrs::spec {

class Heartbeat {
 public:
  void start(Time now, const Settings& settings);
  void stop() noexcept { running_ = false; }
  bool running() const noexcept { return running_; }
  void received(bool is_message);
  // When the tick was that asked for the last HB_MSG; nothing: not known, or none did yet.
  std::optional<Time> asked() const;
  void deadline(Time now);
  // Posted. `probes`: something else may ask for it.
  void message(const RuleContext& context, bool probes);
  void acknowledgement(const RuleContext& context);
  // The path is given up for silence.
  void died(const RuleContext& context);
  // After the actions of a step. `room`: the send queue has room for a heartbeat.
  void end_step(const RuleContext& context, bool room);
  // Before the next input, when time has gone on.
  void time_passed(const RuleContext& context, Time now);

 private:
  struct State {
    Time deadline = 0;
    Time asked = 0;
    std::uint32_t missed = 0;
    bool owes = false;     // an HB_MSG
    bool dead = false;     // this tick found too many missed
    bool skipped = false;  // its tick was due at the last DeadlineReached and did not run yet
    bool operator==(const State&) const = default;
  };
  State ticked(State state, Time now) const;

  bool running_ = false;
  Time interval_ = 0;
  std::uint32_t missed_max_ = 0;
  bool owes_ack_ = false;
  Time last_ = 0;
  PossibleStates<State> states_;
};

}  // namespace rtrs::spec
