#include "sim/oracles/connection_watch.hpp"

#include <algorithm>
#include <utility>

namespace rtrs::sim {

namespace {

// True if only the fabric can report this reason.
bool is_of_fabric(Reason reason) noexcept {
  switch (reason) {
    case Reason::address_unresolved:
    case Reason::connect_refused:
    case Reason::rejected:
    case Reason::challenged:
    case Reason::key_refused:
    case Reason::peer_closed:
    case Reason::transport_error:
    case Reason::fabric_gone:
      return true;
    default:
      return false;
  }
}

// True if the reason indicates a bad address, not a problem of the server there.
bool is_of_address(Reason reason) noexcept {
  switch (reason) {
    case Reason::address_unresolved:
    case Reason::connect_refused:
    case Reason::connect_timeout:
    case Reason::unanswered:
    case Reason::peer_closed:
    case Reason::name_refused:
    case Reason::transport_error:
    case Reason::info_timeout:
      return true;
    default:
      return false;
  }
}

std::uint64_t bit_of(Reason reason) noexcept {
  return std::uint64_t{1} << static_cast<unsigned>(reason);
}

std::string name_of(ConKey key) {
  return "path " + std::to_string(key.place()) + " connection " + std::to_string(key.con);
}

}  // namespace

ConnectionWatch::Path& ConnectionWatch::path_at(std::size_t number) {
  if (paths_.size() <= number) paths_.resize(number + 1);
  if (!std::exchange(paths_[number].used, true)) used_.push_back(number);
  return paths_[number];
}

void ConnectionWatch::asked(ConKey key, std::uint16_t address) {
  open_.push_back(key);
  Path& path = path_at(key.place());
  if (key.con == 0) {
    if (path.leaves && address % path.addresses == path.address)
      judge_.fail(Oracle::addresses, path.retry_since,
                  who_ + ": " + name_of(key) + " goes to the address that has just failed, of " +
                      std::to_string(path.addresses));
    path.leaves = false;
    path.attempting = true;
    path.why = Reason::none;
    path.addresses = 0;
    path.address = address;
  }
  path.waits = Waits::for_answer;
  path.key = key;
  path.since = path.retry_at = kNever;
}

void ConnectionWatch::ended(ConKey key) {
  std::erase(open_, key);
  std::erase(lost_, key);
  Path& path = path_at(key.place());
  if (path.key.epoch != key.epoch) return;
  attempt_ended(path);
  path.waits = Waits::for_nothing;
}

void ConnectionWatch::found(ConKey key, std::uint16_t count, Nanos now) {
  Path& path = path_at(key.place());
  if (path.key != key || path.waits != Waits::for_answer) return;
  path.addresses = count;
  path.address = static_cast<std::uint16_t>(path.address % count);
  path.since = now;
}

// Requires another address in the next attempt only if this attempt failed because of its address before all
// connections existed. After that point, only the path events show whether the path was up.
void ConnectionWatch::attempt_ended(Path& path) {
  if (!std::exchange(path.attempting, false)) return;
  path.leaves = path.addresses > 1 && path.waits == Waits::for_answer && is_of_address(path.why);
  const bool by_server = path.why != Reason::none && !is_of_address(path.why);
  path.failed = static_cast<std::uint16_t>(path.failed + (by_server ? path.addresses : 1));
}

void ConnectionWatch::check_round(Path& path, std::size_t number, PathState state, Reason reason, Nanos delay,
                                  Nanos at) {
  if (state == PathState::connecting || state == PathState::connected)
    path.was_up = state == PathState::connected;
  if (state == PathState::waiting && delay != 0) {
    if (!path.was_up && is_of_address(reason) && path.failed < path.addresses)
      judge_.fail(Oracle::addresses, at,
                  who_ + ": path " + std::to_string(number) + " waits although " +
                      std::to_string(path.addresses - path.failed) + " of its addresses were not tried");
    path.failed = 0;
    ++path.rounds;
  } else if (state == PathState::connected || state == PathState::closed || state == PathState::absent) {
    path.failed = 0;
    path.rounds = 0;
    path.leaves = false;
  }
}

Nanos ConnectionWatch::limit_of(const Path& path) const noexcept {
  if (path.waits == Waits::for_info) return limits_.info;
  if (path.addresses < 2 || path.key.con != 0) return limits_.connect;
  return std::min(limits_.connect, Nanos{kAddressTimeout} << std::min(path.rounds, 16U));
}

void ConnectionWatch::up(ConKey key, Nanos now) {
  Path& path = path_at(key.place());
  if (path.waits != Waits::for_answer || path.key != key) return;
  if (key.con + 1U == limits_.connections) path.waits = Waits::for_info;
  path.since = now;
}

void ConnectionWatch::lost(ConKey key, Reason reason) {
  Path& path = path_at(key.place());
  path.reported |= bit_of(reason);
  if (path.key.epoch == key.epoch && path.why == Reason::none) path.why = reason;
  // A connection that the node ended before this report does not count as lost.
  if (std::find(open_.begin(), open_.end(), key) != open_.end()) lost_.push_back(key);
}

void ConnectionWatch::news(std::size_t number, PathState state, Reason reason, Nanos delay, Nanos at) {
  Path& path = path_at(number);
  path.retry_since = at;
  path.retry_at = state == PathState::waiting && delay != 0 && delay != kNever ? at + delay : kNever;
  if (limits_.connections != 0) check_round(path, number, state, reason, delay, at);
  if (state == PathState::connected && path.waits == Waits::for_info) path.waits = Waits::for_nothing;
  if (state != PathState::draining && state != PathState::closing) return;
  // At a client, rejected_busy means that the server sent a rejection. At a server, it may also mean that a
  // newer attempt replaced the path, without a rejection.
  const bool is_client = limits_.connections != 0;
  // At certain moments the client driver reports a disconnect as name_refused; the fabric reported it as
  // peer_closed.
  const Reason reported_reason = is_client && reason == Reason::rejected_busy  ? Reason::rejected
                                 : is_client && reason == Reason::name_refused ? Reason::peer_closed
                                                                               : reason;
  // The second consecutive challenge means that the key was refused.
  const std::uint64_t bits =
      bit_of(reported_reason) | (reported_reason == Reason::key_refused ? bit_of(Reason::challenged) : 0);
  if (!is_of_fabric(reported_reason) || (path.reported & bits) != 0) return;
  judge_.fail(Oracle::losses, at,
              who_ + ": path " + std::to_string(number) + " ended (" + to_string(reason) +
                  "), and its fabric had not reported it");
}

void ConnectionWatch::poll_begins(Nanos now, std::span<const Nanos> waiting) {
  constexpr Nanos kRounding = milliseconds(1);  // allowance for the rounding of node time
  for (std::size_t number = 0; number < paths_.size(); ++number) {
    const Path& path = paths_[number];
    const bool waits = number < waiting.size() && waiting[number] == path.retry_since;
    if (waits && path.retry_at != kNever && now > path.retry_at + kRounding)
      judge_.fail(
          Oracle::promises, now,
          who_ + ": path " + std::to_string(number) + " was not retried when its announced delay had passed");
    if (path.waits == Waits::for_nothing || path.since == kNever) continue;
    const bool info = path.waits == Waits::for_info;
    const Nanos limit = limit_of(path);
    if (limit == kNever || now <= path.since + limit + kRounding) continue;
    const bool hurries = !info && limit != limits_.connect;
    judge_.fail(hurries ? Oracle::addresses : Oracle::promises, now,
                who_ + ": " + (info ? "path " + std::to_string(number) : name_of(path.key)) +
                    " is neither up nor given up after " + std::to_string(now - path.since) +
                    " ns, which is more than " +
                    (info      ? "info_timeout"
                     : hurries ? "one of several addresses may take"
                               : "connect_timeout"));
  }
}

void ConnectionWatch::poll_ends(Nanos now) {
  for (const std::size_t number : used_) {
    Path& path = paths_[number];
    path.used = false;
    path.reported = 0;
    if (path.since == kNever) path.since = now;
  }
  used_.clear();
  if (!lost_.empty())
    judge_.fail(
        Oracle::losses, now,
        who_ + ": " + name_of(lost_.front()) + " is lost, and the poll that reported it did not end it");
  lost_.clear();
}

}  // namespace rtrs::sim
