// Passes the state of the nodes to the oracles, and marks the rare situations of a run.
#pragma once
#include <array>
#include <vector>

#include "sim/oracles/key_hygiene.hpp"
#include "sim/world/books.hpp"
#include "sim/world/cluster.hpp"

namespace rtrs::sim {

class Watch : private Part {
 public:
  using Pairs = std::array<std::array<bool, kPathStates>, kPathStates>;

  Watch(Cluster&, Books&);

  KeyHygiene& keys() noexcept { return keys_; }
  // Pairs of states that the two ends of a path had at the same time.
  const Pairs& pairs() const noexcept { return pairs_; }

  // --- around a poll ---
  // Called just before an event at `until`. Polls the nodes that have nothing to do, and fails the run if
  // such a poll does something.
  void check_idle(Nanos until);
  ClientPromises::Before before_poll(const ClientNode&) const;
  // Returns, for each path, the time at which the wait for its next attempt began; kNever: the path does not
  // wait.
  std::array<Nanos, kMaxPaths> waiting_since(const ClientNode&) const;
  void check_waits(ClientNode&, std::uint32_t index, Nanos slack);
  // Called after a poll. `timer`: time of the next timer, on the node's clock.
  void watch_timer(Node&, Nanos timer);
  // Fails the run if an invariant is violated: `broken` (nullptr: none), or one that the recorder found.
  void check_invariants(const Node&, const char* broken);
  void check_hung();

  // --- paths ---
  void check_attempt(const Node&, std::size_t path, bool same_attempt);
  void check_one_server(ClientNode&, unsigned path);
  bool any_path_changing() const;
  void note_pairs();

  // --- marks, defined in watch_marks.cpp ---
  void counted_marks();
  void client_reason(ClientNode&, const PathChanged&, bool was_connected);
  void server_reason(std::size_t path, Reason, Nanos at);
  void server_marks();
  void failover_marks(ClientNode&);
  void load_marks(const BookedIo&, std::uint32_t io);
  void resent_marks(const BookedIo&);

 private:
  // A hung connection with undelivered messages. `by_client`, `by_server`, `of_fence`: time since which such
  // messages are undelivered; kNever: there are none.
  struct Undelivered {
    QpId qp = kNone;                               // the client's queue pair
    Nanos by_client = kNever, by_server = kNever;  // messages whose loss this side must detect
    Nanos of_fence = kNever;                       // fence requests and their responses
    std::uint32_t fences_over = 0;                 // fence messages for which no client waits any more
  };

  void mark_options();
  void reason_marks(Reason at_server);
  bool has_nothing_to_do(const Node&) const;
  std::uint32_t undelivered_messages(const ClientNode&, QpId) const;
  void watch_fence(const ClientNode&, Undelivered&);
  unsigned count_connected_paths(const ClientNode&, bool wrong_server) const;

  Books& books_;
  KeyHygiene keys_;
  Pairs pairs_{};
  std::vector<Undelivered> undelivered_;
};

}  // namespace rtrs::sim
