#include "sim/oracles/heartbeat_watch.hpp"

#include <algorithm>
#include <string>

namespace rtrs::sim {

namespace {

bool ends_by_deadline(Reason reason) {
  return reason == Reason::heartbeat_lost || reason == Reason::connect_timeout ||
         reason == Reason::info_timeout || reason == Reason::handshake_timeout ||
         reason == Reason::request_timeout;
}

}  // namespace

void HeartbeatWatch::connected(std::size_t path, Nanos now) {
  if (paths_.size() <= path) paths_.resize(path + 1);
  if (!paths_[path].connected) connected_.insert(std::ranges::lower_bound(connected_, path), path);
  paths_[path] = Path{true, now};
}

void HeartbeatWatch::received(std::size_t path, Nanos now) {
  if (path < paths_.size()) paths_[path].heard = now;
}

void HeartbeatWatch::lost(std::size_t path, Reason reason, bool unread, Nanos now) {
  if (unread && ends_by_deadline(reason))
    judge_.fail(Oracle::heartbeat, now,
                "path " + std::to_string(path) + " ended (" + to_string(reason) +
                    ") although an unread message of the peer had arrived");
  if (path >= paths_.size() || !paths_[path].connected) return;
  paths_[path].connected = false;
  std::erase(connected_, path);
  const Nanos silence = now - paths_[path].heard;
  if (reason == Reason::heartbeat_lost && silence + rounding_ < config_.missed_max * config_.interval)
    judge_.fail(Oracle::heartbeat, now,
                "path " + std::to_string(path) + " declared dead after " + std::to_string(silence) +
                    " ns of silence, which is less than " + std::to_string(config_.missed_max) + " x " +
                    std::to_string(config_.interval));
}

void HeartbeatWatch::withheld(std::size_t path, Nanos since, Nanos now) {
  since = std::max(since, resumed_);
  if (now > later(later(since, dead_peer_time(config_)), rounding_))
    judge_.fail(Oracle::heartbeat, now,
                "path " + std::to_string(path) +
                    " is still connected after one of its connections delivered "
                    "nothing for " +
                    std::to_string(now - since) + " ns, which is more than " +
                    std::to_string(config_.missed_max + 2) + " x " + std::to_string(config_.interval));
}

void HeartbeatWatch::check(Nanos now) {
  const Nanos bound = later(dead_peer_time(config_), rounding_);
  for (const std::size_t path : connected_) {
    const Nanos heard = std::max(paths_[path].heard, resumed_);
    if (now > later(heard, bound))
      judge_.fail(Oracle::heartbeat, now,
                  "path " + std::to_string(path) + " is still connected after " +
                      std::to_string(now - heard) + " ns of silence, which is more than " +
                      std::to_string(config_.missed_max + 2) + " x " + std::to_string(config_.interval));
  }
}

}  // namespace rtrs::sim
