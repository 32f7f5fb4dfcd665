// Heartbeat of a path as the protocol defines it. One DeadlineReached serves several timers, and the trace
// does not record which of them ran: until a later event decides, both are possible.
#pragma once
#include <cstdint>
#include <optional>

#include "conformance/spec/findings.hpp"
#include "conformance/spec/possible_states.hpp"

namespace rtrs::spec {

struct KnownHeartbeat;

class Heartbeat {
 public:
  void start(Time now, const Settings& settings);
  // Begins in the middle of a run.
  void resume(Time now, const Settings& settings, const KnownHeartbeat& known);
  void stop() noexcept { running_ = false; }
  bool running() const noexcept { return running_; }
  void received(bool is_message);
  // Time of the tick that caused the last HB_MSG; empty if unknown or if there was none.
  std::optional<Time> asked() const;
  void deadline(Time now);
  // An HB_MSG was posted. `probes`: its cause may also be a probe instead of the timer.
  void message(const RuleContext& context, bool probes);
  void acknowledgement(const RuleContext& context);
  // The path was declared lost because the peer was silent.
  void died(const RuleContext& context);
  // Call after the actions of a step. `room`: the send queue has room for a heartbeat.
  void end_step(const RuleContext& context, bool room);
  // Call before the next input if time has advanced.
  void time_passed(const RuleContext& context, Time now);

 private:
  struct State {
    Time deadline = 0;
    Time asked = 0;
    std::uint32_t missed = 0;
    bool owes = false;     // an HB_MSG must be posted
    bool dead = false;     // this tick found too many missed heartbeats
    bool skipped = false;  // the tick was due at the last DeadlineReached but has not run yet
    bool operator==(const State&) const = default;
  };
  State ticked(State state, Time now) const;

  bool running_ = false;
  Time interval_ = 0;
  std::uint32_t missed_max_ = 0;
  bool owes_ack_ = false;
  bool skips_ = false;  // states_ may contain a state that skipped its tick
  Time last_ = 0;
  PossibleStates<State> states_;
};

}  // namespace rtrs::spec
