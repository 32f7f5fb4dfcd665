// What becomes of the connections of one node, seen from outside: by its calls to the fabric, what that
// reported, and the news.
//   O24  whose loss, or refusal, the fabric reported is ended in the same poll, and when the news blames the
//        network or the peer for the end of a path, the fabric has just said so
//   O20  of a client: it gives up a connection that is not answered for connect_timeout, and a path that has
//        all connections and no INFO_RSP for info_timeout, and tries a path again when the delay that it told
//        is over
//   O28  of a client whose path leads to a name with several addresses: it gives up an address that does not
//        answer after kAddressTimeout, twice as long in each further round, uses another address after one
//        that failed, and does not wait before it has tried all
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
  // Of a client.
  struct Limits {
    Nanos connect = kNever, info = kNever;
    std::uint16_t connections = 0;  // of a path
  };
  ConnectionWatch(Judge& judge, std::string who, const Limits& limits)
      : judge_(judge), who_(std::move(who)), limits_(limits) {}

  // What the node does.
  void asked(ConKey, std::uint16_t address = 0);
  void accepted(ConKey key) { open_.push_back(key); }
  void ended(ConKey);
  // What the fabric tells.
  void found(ConKey, std::uint16_t count, Nanos now);
  void up(ConKey, Nanos now);
  void lost(ConKey, Reason);
  // All news of the node, in order, by the number of the path in ConKeys.
  void news(std::size_t path, PathState, Reason, Nanos delay, Nanos at);
  // Nothing is left that it asked for or accepted and has not ended.
  bool all_ended() const noexcept { return open_.empty(); }
  // Before a poll that no pause has put off, and after every one. `waiting`: since when each path is to be
  // tried again, as its node shows them; kNever: it is not. News of that may not be taken yet.
  void poll_begins(Nanos now, std::span<const Nanos> waiting);
  void poll_ends(Nanos now);

 private:
  enum class Waits : std::uint8_t { for_nothing, for_answer, for_info };
  struct Path {
    Waits waits = Waits::for_nothing;
    ConKey key{};
    Nanos since = kNever;        // kNever: until the next poll
    Nanos retry_since = kNever;  // it is to be tried again: since when, and when
    Nanos retry_at = kNever;
    std::uint64_t reported = 0;   // in this poll, a bit for each Reason
    std::uint16_t addresses = 0;  // of its name, as the attempt found them; 0: it has one
    std::uint16_t address = 0;    // index of the one in use
    std::uint16_t failed = 0;     // in this round, at most
    std::uint32_t rounds = 0;     // without success
    Reason why = Reason::none;    // the fabric gave for the end of the attempt
    bool attempting = false;
    bool leaves = false;  // the next attempt uses another address
    bool was_up = false;  // by the news
  };
  void attempt_ended(Path&);
  void check_round(Path&, std::size_t number, PathState, Reason, Nanos delay, Nanos at);
  Nanos limit_of(const Path&) const noexcept;
  Path& path_at(std::size_t number);

  Judge& judge_;
  std::string who_;
  Limits limits_;
  std::vector<Path> paths_;
  std::vector<ConKey> open_;  // asked for or accepted, and not ended
  std::vector<ConKey> lost_;  // of these: the fabric said so in this poll
};

}  // namespace rtrs::sim
