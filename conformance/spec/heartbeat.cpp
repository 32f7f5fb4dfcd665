#include "conformance/spec/heartbeat.hpp"

#include <string>
#include <utility>

namespace rtrs::spec {

void Heartbeat::start(Time now, const Settings& settings) {
  interval_ = settings.heartbeat_interval;
  missed_max_ = settings.heartbeat_missed_max;
  running_ = interval_ != 0;
  owes_ack_ = skips_ = false;
  last_ = now;
  states_.set(State{now + interval_, 0, 0, false, false, false});
}

Heartbeat::State Heartbeat::ticked(State state, Time now) const {
  state.skipped = false;
  if (state.missed > missed_max_) {
    state.dead = true;
    return state;
  }
  state.deadline = now + interval_;
  if (state.missed++ != 0) return state;
  state.owes = true;
  state.asked = now;
  return state;
}

std::optional<Time> Heartbeat::asked() const {
  if (!running_ || states_.anything()) return std::nullopt;
  const Time asked = states_.states().front().asked;
  const bool known = states_.all([asked](const State& state) { return state.asked == asked; });
  return known && asked != 0 ? std::optional(asked) : std::nullopt;
}

void Heartbeat::received(bool is_message) {
  if (!running_) return;
  if (is_message) owes_ack_ = true;
  states_.change([](State& state) { state.missed = 0; });
}

void Heartbeat::deadline(Time now) {
  if (!running_ || states_.all([now](const State& state) { return now < state.deadline; })) return;
  skips_ = true;
  states_.step([&](State state, auto& next) {
    if (now >= state.deadline) {
      next.push_back(ticked(state, now));
      state.skipped = true;
    }
    next.push_back(state);
  });
}

void Heartbeat::message(const RuleContext& context, bool probes) {
  if (!running_) return;
  const bool due = states_.step([probes](State state, auto& next) {
    if (!state.owes && !probes) return;
    state.owes = false;
    next.push_back(state);
  });
  context.check(due, Rule::hb_period, "an HB_MSG without a tick that asks for one",
                "one HB_MSG an interval, after something was received since the last");
}

void Heartbeat::acknowledgement(const RuleContext& context) {
  if (!running_) return;
  context.check(owes_ack_, Rule::hb_ack, "an HB_ACK without an HB_MSG of the peer",
                "one HB_ACK for each HB_MSG");
  owes_ack_ = false;
}

void Heartbeat::died(const RuleContext& context) {
  if (!running_) return;
  context.check(
      states_.any([](const State& state) { return state.dead; }), Rule::hb_dead_early,
      [&] {
        return "given up for silence with " + std::to_string(states_.states().front().missed) + " missed";
      },
      [&] { return "at a tick that finds more than " + std::to_string(missed_max_) + " missed"; });
}

void Heartbeat::end_step(const RuleContext& context, bool room) {
  if (!running_) return;
  context.findings.ambiguity(states_.size());
  const bool dead = states_.all([](const State& state) { return state.dead; });
  if (!dead) {
    states_.keep([](const State& state) { return !state.dead; });
    if (!states_.keep([&](const State& state) { return !(state.owes && room); }))
      context.check(false, Rule::hb_period, "a tick that found nothing missed sent no HB_MSG",
                    "HB_MSG, while the send queue has room");
  } else {
    context.check(false, Rule::hb_dead_late, "a tick that found too many missed did not end the path",
                  "PathChanged with reason heartbeat_lost");
    running_ = false;
  }
  if (owes_ack_ && room) {
    context.check(false, Rule::hb_ack_due, "no HB_ACK although the send queue has room", "PostImm of HB_ACK");
    owes_ack_ = false;
  }
}

void Heartbeat::time_passed(const RuleContext& context, Time now) {
  if (!running_ || now <= last_) return;
  last_ = now;
  if (!std::exchange(skips_, false)) return;
  // Time has advanced, so every tick that was due before must have run.
  if (states_.keep([](const State& state) { return !state.skipped; })) return;
  const bool dying = states_.any([&](const State& state) { return state.missed > missed_max_; });
  context.check(false, dying ? Rule::hb_dead_late : Rule::hb_period, "a tick that was due did not run",
                dying ? "the end of the path at the tick" : "HB_MSG at the tick, where nothing is missed");
  running_ = false;
}

}  // namespace rtrs::spec
