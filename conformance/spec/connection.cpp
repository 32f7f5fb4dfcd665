#include "conformance/spec/connection.hpp"

#include <algorithm>

namespace rtrs::spec {

namespace {

const char* name_of(Connection::Phase phase) {
  switch (phase) {
    case Connection::Phase::asked:
      return "not answered yet";
    case Connection::Phase::up:
      return "established";
    case Connection::Phase::failed:
      return "refused";
    case Connection::Phase::ending:
      return "asked to end";
    case Connection::Phase::closed:
      return "closed";
  }
  return "";
}

}  // namespace

std::string to_string(const Key& key) {
  return "path " + std::to_string(key.path) + " connection " + std::to_string(key.con) + " incarnation " +
         std::to_string(key.epoch);
}

void Connection::answered(const RuleContext& context, bool accepted) {
  // The answer of the peer and the disconnect of this side may cross on the wire.
  if (phase_ == Phase::ending) return;
  if (context.check(
          phase_ == Phase::asked, Rule::connection_events,
          [&] { return to_string(key_) + " is answered and was " + name_of(phase_); },
          [] { return std::string("an answer to a connection that was asked for and not answered"); }))
    phase_ = accepted ? Phase::up : Phase::failed;
}

void Connection::lost(const RuleContext& context) const {
  context.check(
      phase_ != Phase::closed, Rule::connection_events,
      [&] { return to_string(key_) + " is lost and was closed before"; },
      [] { return std::string("nothing more of this connection"); });
}

void Connection::closed(const RuleContext& context) {
  context.check(
      phase_ == Phase::ending, Rule::connection_events,
      [&] { return to_string(key_) + " is closed and was " + name_of(phase_); },
      [&] { return std::string(phase_ == Phase::closed ? "nothing more of it" : "Disconnect first"); });
  phase_ = Phase::closed;
  cookies_.clear();
  completed_ = 0;
  receives_ = outstanding_ = unsignalled_ = earlier_ = 0;
}

void Connection::disconnect(const RuleContext& context, Rule rule) {
  context.check(
      open(), rule, [&] { return to_string(key_) + " is asked to end and was " + name_of(phase_); },
      [] { return std::string("Disconnect once a connection"); });
  if (phase_ != Phase::closed) phase_ = Phase::ending;
}

bool Connection::live(const RuleContext& context) const {
  return context.check(
      up(), Rule::post_on_live,
      [&] {
        return std::string(name_of(context.event.kind)) + " on " + to_string(key_) + ", which is " +
               name_of(phase_);
      },
      [] { return std::string("work on established connections only"); });
}

void Connection::heard(const RuleContext& context) const {
  context.check(
      phase_ == Phase::up || phase_ == Phase::ending, Rule::connection_events,
      [&] {
        return std::string(name_of(context.event.kind)) + " of " + to_string(key_) + ", which is " +
               name_of(phase_);
      },
      [] { return std::string("arrivals and completions of established connections only"); });
}

void Connection::take_receive(const RuleContext& context) {
  if (phase_ == Phase::closed || began_before_) return;
  if (context.check(
          receives_ > 0, Rule::receive_room,
          [&] { return "a message took a receive of " + to_string(key_) + ", which has none"; },
          [] { return std::string("PostReceive first"); }))
    --receives_;
}

void Connection::balance(const RuleContext& context, std::uint32_t least) {
  if (began_before_) return;
  const bool first = !usual_receives_;
  const std::uint64_t usual = first ? receives_ : *usual_receives_;
  usual_receives_ = receives_;
  context.check(
      receives_ == usual && (!first || receives_ >= least), Rule::receive_balance,
      [&] { return to_string(key_) + " has " + std::to_string(receives_) + " receives"; },
      [&] {
        return first ? "at least " + std::to_string(least)
                     : std::to_string(usual) + ", as before: PostReceive for each that was taken";
      });
}

void Connection::post(const RuleContext& context, std::uint32_t entries, std::uint64_t cookie,
                      std::uint32_t depth) {
  outstanding_ += entries;
  unsignalled_ += entries;
  if (depth != 0) {
    context.check(
        outstanding_ <= depth, Rule::send_room,
        [&] { return std::to_string(outstanding_) + " entries under way on " + to_string(key_); },
        [&] { return "at most " + std::to_string(depth); });
    context.check(
        cookie != 0 || unsignalled_ < depth, Rule::send_signal,
        [&] { return std::to_string(unsignalled_) + " unsignalled entries in a row on " + to_string(key_); },
        [&] {
          return "a signalled one before the queue of " + std::to_string(depth) + " is full of others";
        });
  }
  if (cookie == 0) return;
  context.check(
      cookie == unsignalled_, Rule::send_signal, [&] { return "cookie " + std::to_string(cookie); },
      [&] {
        return "cookie " + std::to_string(unsignalled_) + ", the entries since the last signalled one";
      });
  cookies_.push_back(unsignalled_);
  unsignalled_ = 0;
}

void Connection::completed(const RuleContext& context) {
  if (phase_ == Phase::closed) return;
  if (earlier_ != 0) {
    const std::uint64_t cookie = context.event.cookie;
    context.check(
        cookie != 0 && cookie <= earlier_, Rule::send_order,
        [&] { return "completion with cookie " + std::to_string(cookie) + " on " + to_string(key_); },
        [&] { return "1 to " + std::to_string(earlier_) + ", of work that was posted before the trace"; });
    const std::uint64_t retired = std::min(cookie, earlier_);
    earlier_ -= retired;
    outstanding_ -= retired;
    return;
  }
  const bool known = completed_ < cookies_.size();
  const std::uint64_t expected = known ? cookies_[completed_] : 0;
  context.check(
      expected != 0 && expected == context.event.cookie, Rule::send_order,
      [&] {
        return "completion with cookie " + std::to_string(context.event.cookie) + " on " + to_string(key_);
      },
      [&] {
        return expected == 0 ? std::string("none: no signalled work is under way")
                             : "cookie " + std::to_string(expected);
      });
  if (!known) return;
  outstanding_ -= expected;
  // Erases in large parts, so that a trace of any length costs the same per completion.
  if (++completed_ < 64 || 2 * completed_ < cookies_.size()) return;
  cookies_.erase(cookies_.begin(), cookies_.begin() + static_cast<std::ptrdiff_t>(completed_));
  completed_ = 0;
}

}  // namespace rtrs::spec
