#include "sim/oracles/client_promises.hpp"

#include <algorithm>
#include <string>

namespace rtrs::sim {

namespace {

// True if the state machine ends a path for this reason only when one of its deadlines expires.
bool is_of_deadline(Reason reason) noexcept {
  return reason == Reason::heartbeat_lost || reason == Reason::info_timeout ||
         reason == Reason::request_timeout || reason == Reason::connection_silent;
}

Nanos longest_delay(const ClientConfig& config) noexcept {
  const Nanos turn = config.lead_head_start == kNever ? 0 : config.lead_head_start;
  return std::max({config.reconnect_min, config.reconnect_max, config.busy_retry, turn}) +
         config.reconnect_jitter;
}

}  // namespace

ClientPromises::ClientPromises(Judge& judge, const ClientConfig& config, bool whole_requests)
    : judge_(judge), config_(config), whole_requests_(whole_requests) {
  timeouts_before_.fill(kNothing);
  asked_.fill(kNever);
}

void ClientPromises::poll_begins(const Before& before) {
  before_ = before;
  down_before_ = down_since_;
  missed_ = Reason::none;
}

void ClientPromises::note(const PathEvent& news) {
  if (news.kind == PathEvent::Kind::link_down) down_since_ = news.at;
  if (news.kind == PathEvent::Kind::link_up && news.at >= down_since_ + config_.queue_timeout)
    outage_ = {down_since_, news.at};
  if (news.kind == PathEvent::Kind::path) note_path(news.path, news.at);
}

void ClientPromises::note_path(const PathChanged& path, Nanos at) {
  const auto fail = [&](const std::string& what) {
    judge_.fail(Oracle::promises, at, "path " + std::to_string(path.path) + what);
  };
  const bool ends = path.state == PathState::draining || path.state == PathState::closing;
  if (ends) lost_at_ = std::max(lost_at_, at);
  if (ends && is_of_deadline(path.reason)) missed_ = path.reason;
  if (ends && path.reason == Reason::connection_silent && before_.delivered.test(path.path))
    fail(" was closed as silent although everything posted on it had been delivered");
  if (ends && path.reason == Reason::request_timeout) {
    timeouts_before_[path.path] = timeouts_;
  } else if (!ends && timeouts_before_[path.path] != kNothing) {
    timeout_expected_ = timeout_expected_ || timeouts_ == timeouts_before_[path.path];
    timeouts_before_[path.path] = kNothing;
  }
  if (path.state == PathState::waiting && path.delay > longest_delay(config_))
    fail(" will be retried after " + std::to_string(path.delay) + " ns, which is longer than any delay");
  if (must_reconnect_at_once_[path.path] && path.state == PathState::waiting && path.delay != 0)
    fail(" waits for its next attempt although it was recovered");
  if (path.state != PathState::draining && path.state != PathState::closing)
    must_reconnect_at_once_[path.path] = false;
  // A path event from before the operator's call may be reported after the call. Only the time of the event
  // shows that.
  if (path.state == PathState::connecting && asked_[path.path] != kNever && at > asked_[path.path])
    asked_[path.path] = kNever;
  const bool ended = path.state == PathState::closed && config_.max_reconnect_attempts < 0;
  if (ended && !leaving_ && asked_[path.path] == kNever)
    fail(std::string(" is closed although no operator disconnected it: ") + to_string(path.reason));
}

void ClientPromises::recovered(std::span<const PathStatus> before, std::span<const PathStatus> after,
                               unsigned tried, Nanos now) {
  if (leaving_) return;
  unsigned down = 0, ending = 0;
  for (std::size_t path = 0; path < before.size(); ++path) {
    const PathState was = before[path].state;
    ending += was == PathState::draining || was == PathState::closing ? 1 : 0;
    if (was == PathState::draining) must_reconnect_at_once_[path] = true;
    if (was != PathState::waiting && was != PathState::closed) continue;
    ++down;
    const bool waits_for_turn = after[path].state == PathState::waiting && after[path].held_back;
    if (after[path].state != PathState::connecting && !waits_for_turn)
      judge_.fail(Oracle::promises, now,
                  "path " + std::to_string(path) + " is not retried at once when the session is recovered: " +
                      to_string(after[path].state));
  }
  // recover() may also count each path that is ending, unless the path is being removed.
  if (tried < down || tried > down + ending)
    judge_.fail(Oracle::promises, now,
                "a recover of " + std::to_string(down) + " paths that are down and " +
                    std::to_string(ending) + " that end says " + std::to_string(tried));
}

void ClientPromises::check_attempts(std::span<const PathStatus> paths, Nanos now) {
  for (std::size_t path = 0; path < paths.size(); ++path) {
    const PathStatus& one = paths[path];
    const bool waits = one.state == PathState::waiting;
    const bool late =
        one.retry_at != kNever && !one.held_back && one.retry_at > one.since + longest_delay(config_);
    if (waits ? one.retry_at > now && !late : one.retry_at == 0 && !one.held_back) continue;
    judge_.fail(Oracle::promises, now,
                "path " + std::to_string(path) + " is " + to_string(one.state) + " and says " +
                    std::to_string(one.retry_at) + " ns as the time of its next attempt");
  }
}

void ClientPromises::check_oldest(Nanos since, Nanos now) {
  const bool over = config_.request_timeout != kNever && now >= later(since, config_.request_timeout);
  if (over && since > lost_at_)
    judge_.fail(Oracle::promises, now,
                "a request was sent at " + std::to_string(since) +
                    " ns, has no answer within request_timeout, and its path is not lost");
}

// True if the request has waited less than queue_timeout, or not at all. `since`: start of the time without a
// path or a permit; kNever: there is none.
bool ClientPromises::early(Nanos submitted, Nanos since, Nanos now) const noexcept {
  return since == kNever || now < std::max(submitted, since) + config_.queue_timeout;
}

void ClientPromises::completed(std::uint32_t io, Errc result, Nanos submitted, Nanos now) {
  if (result == Errc::request_timeout) {
    ++timeouts_;
    timeout_expected_ = false;
  }
  if (result != Errc::no_path || config_.queue_timeout == kNever) return;
  if (early(submitted, down_since_, now) && early(submitted, down_before_, now) &&
      early(submitted, before_.without_permits_since, now) &&
      (whole_requests_ || early(submitted, outage_.since, outage_.until)))
    judge_.fail(Oracle::promises, now,
                "request " + std::to_string(io) + " failed without a path before queue_timeout had passed");
}

void ClientPromises::poll_ends(std::size_t taken, bool all_results, Nanos now) {
  // A client reads a limited number of batches before it checks its deadlines, so that a flood of events
  // cannot delay them.
  constexpr std::size_t kBatches = 64;
  if (missed_ != Reason::none && taken < before_.held_events && taken < kBatches)
    judge_.fail(Oracle::promises, now,
                std::string("a deadline ended a path (") + to_string(missed_) + ") while the fabric held " +
                    std::to_string(before_.held_events - taken) + " events that came before it");
  if (!all_results) return;
  if (timeout_expected_ && whole_requests_)
    judge_.fail(
        Oracle::promises, now,
        "a path ended because a request was not answered within request_timeout, and none failed with it");
  timeout_expected_ = false;
}

}  // namespace rtrs::sim
