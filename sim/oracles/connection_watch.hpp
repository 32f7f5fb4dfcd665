// Checks the connections of one node from outside: by its calls to the fabric, the fabric's events, and
// the node's path events.
//   O24  the node ends a lost or refused connection in the poll that reports it; if a path event blames the
//        network or the peer, the fabric has just reported such a reason
//   O20  client: it gives up an unanswered connection after connect_timeout, and a path with all connections
//        but without INFO_RSP after info_timeout; it retries a path when the announced delay has passed
//   O28  client with a host name of several addresses: it gives up a silent address after kAddressTimeout,
//        doubled in each further round; after a failed address it uses another one; it does not wait before
//        it has tried all addresses
// Times are those of the node's clock.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/proto/actions.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class ConnectionWatch {
 public:
  // Limits of a client; a server keeps the defaults.
  struct Limits {
    Nanos connect = kNever, info = kNever;
    std::uint16_t connections = 0;  // number per path
  };
  ConnectionWatch(Judge& judge, std::string who, const Limits& limits)
      : judge_(judge), who_(std::move(who)), limits_(limits) {}

  // Actions of the node.
  void asked(ConKey, std::uint16_t address = 0);
  void accepted(ConKey key) { open_.push_back(key); }
  void ended(ConKey);
  // Events of the node's fabric.
  void found(ConKey, std::uint16_t count, Nanos now);
  void up(ConKey, Nanos now);
  void lost(ConKey, Reason);
  // Must be called for all of the node's path events, in order. `path`: number of the path as in its ConKeys.
  void news(std::size_t path, PathState, Reason, Nanos delay, Nanos at);
  // True if the node has ended all connections that it requested or accepted.
  bool all_ended() const noexcept { return open_.empty(); }
  // Call poll_begins() before each poll that no pause delayed, and poll_ends() after each poll. `waiting`:
  // time since which each path waits for its next attempt, according to the node; kNever: the path does not
  // wait. The matching path events may still be pending.
  void poll_begins(Nanos now, std::span<const Nanos> waiting);
  void poll_ends(Nanos now);

 private:
  enum class Waits : std::uint8_t { for_nothing, for_answer, for_info };
  struct Path {
    Waits waits = Waits::for_nothing;
    ConKey key{};
    Nanos since = kNever;        // start of the wait; kNever: starts at the next poll
    Nanos retry_since = kNever;  // start of the wait for the next attempt, which begins at `retry_at`
    Nanos retry_at = kNever;
    std::uint64_t reported = 0;   // reasons reported in this poll, one bit per Reason
    std::uint16_t addresses = 0;  // number of addresses found in this attempt; 0: only one
    std::uint16_t address = 0;    // index of the address in use
    std::uint16_t failed = 0;     // number of addresses that may have failed in this round
    std::uint32_t rounds = 0;     // number of unsuccessful rounds
    Reason why = Reason::none;    // why the attempt ended, according to the fabric
    bool attempting = false;
    bool leaves = false;  // the next attempt must use another address
    bool was_up = false;  // the path was up, according to path events
    bool used = false;    // the path is in used_
  };
  void attempt_ended(Path&);
  void check_round(Path&, std::size_t number, PathState, Reason, Nanos delay, Nanos at);
  Nanos limit_of(const Path&) const noexcept;
  Path& path_at(std::size_t number);

  Judge& judge_;
  std::string who_;
  Limits limits_;
  std::vector<Path> paths_;
  std::vector<std::size_t> used_;  // indexes in paths_ of the paths used in this poll
  std::vector<ConKey> open_;       // connections requested or accepted and not ended
  std::vector<ConKey> lost_;       // open connections whose loss was reported in this poll
};

}  // namespace rtrs::sim
