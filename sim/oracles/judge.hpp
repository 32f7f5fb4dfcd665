// What the oracles say: the first broken rule of a run, and which rare situations the run passed through.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "core/proto/ids.hpp"

namespace rtrs::sim {

// Id and rule of each oracle. The ids are cited in reports and never change their meaning.
#define RTRS_SIM_ORACLES(X)                                                                                 \
  X(exactly_once, "O1",                                                                                     \
    "every accepted request gets one callback, and success only if the server reported it")                 \
  X(slot_exclusivity, "O2",                                                                                 \
    "a chunk has one user at a time and its content does not change under that user")                       \
  X(data_integrity, "O3", "storage and application see whole sectors of known writes, at their place")      \
  X(history, "O4", "each sector is a register: no lost update, no effect outside the window of its write")  \
  X(ledger, "O5",                                                                                           \
    "permits, connections, memory and keys are back at their number when nothing is under way")             \
  X(incarnation, "O6", "all connections that a path has at a time belong to one attempt")                   \
  X(legality, "O7", "honest peers never break the protocol, and no machine breaks its invariant")           \
  X(heartbeat, "O8", "a path dies of silence only, and of every silence within (missed_max + 2) intervals") \
  X(liveness, "O9", "after the faults every path connects and every request completes, within bounds")      \
  X(links, "O14", "link events alternate and tell whether a path is connected")                             \
  X(determinism, "O16", "the same seed gives the same run")                                                 \
  X(laws, "O18", "the network keeps the laws of reliable connections")

enum class Oracle : std::uint8_t {
#define RTRS_SIM_ORACLE(name, id, rule) name,
  RTRS_SIM_ORACLES(RTRS_SIM_ORACLE)
#undef RTRS_SIM_ORACLE
};
const char* id_of(Oracle) noexcept;
const char* rule_of(Oracle) noexcept;
inline constexpr unsigned kOracles = static_cast<unsigned>(Oracle::laws) + 1;

struct Failure {
  Oracle oracle = Oracle::liveness;
  std::string text;
  Nanos time = 0;           // virtual
  std::uint64_t event = 0;  // steps of the world until then
};

// Situations that a sweep should reach at least sometimes.
#define RTRS_SIM_MARKS(X)                                          \
  X(failover_of_one, "failover with one request in flight")        \
  X(failover_of_all, "failover with every permit in flight")       \
  X(failover_twice, "a request reached the server three times")    \
  X(unfenced_failover, "failover without proof")                   \
  X(fence_answered, "fence answered")                              \
  X(gate_used, "request waited for the older user of its chunk")   \
  X(response_dropped, "answer for a path that was gone")           \
  X(stale_response, "response after its request was over")         \
  X(zombie_reaped, "half-open path reaped")                        \
  X(superseded, "newer attempt closed an older incarnation")       \
  X(server_rejected, "the server rejected a connect request")      \
  X(rejected_busy, "attempt told to come back")                    \
  X(name_refused, "session name still owned by the former client") \
  X(connect_rejected, "a client saw a rejection other than busy")  \
  X(heartbeat_lost, "path died of silence")                        \
  X(all_down_then_up, "all paths down, then up again")             \
  X(server_restart, "server crashed and restarted")                \
  X(client_restart, "client crashed and restarted")                \
  X(paused_dead_time, "process paused longer than the dead time")  \
  X(depth_one, "one permit")                                       \
  X(permit_waiter, "request waited for a permit")                  \
  X(queue_expired, "request failed for want of a path")            \
  X(storage_error, "storage error reached the application")        \
  X(errno_too_large, "storage error that the wire cannot carry")   \
  X(slow_storage, "storage slower than the dead-peer time")        \
  X(path_removed, "path removed and added again")                  \
  X(policy_changed, "policy changed under load")                   \
  X(fresh_keys, "a fresh key for every request")                   \
  X(remote_invalidation, "READ whose key the server invalidates")

enum class Mark : std::uint8_t {
#define RTRS_SIM_MARK(name, text) name,
  RTRS_SIM_MARKS(RTRS_SIM_MARK)
#undef RTRS_SIM_MARK
      count_,
};
inline constexpr unsigned kMarks = static_cast<unsigned>(Mark::count_);
const char* text_of(Mark) noexcept;

class Judge {
 public:
  // Only the first failure is kept: later ones are often its consequences.
  void fail(Oracle oracle, Nanos now, std::string text) {
    if (failed_) return;
    failed_ = true;
    failure_ = Failure{oracle, std::move(text), now, events_};
  }
  bool failed() const noexcept { return failed_; }
  const Failure& failure() const noexcept { return failure_; }
  void count_event() noexcept { ++events_; }
  std::uint64_t events() const noexcept { return events_; }
  void mark(Mark mark) noexcept { marks_[static_cast<unsigned>(mark)] = true; }
  const std::array<bool, kMarks>& marks() const noexcept { return marks_; }

 private:
  bool failed_ = false;
  Failure failure_;
  std::uint64_t events_ = 0;
  std::array<bool, kMarks> marks_{};
};

}  // namespace rtrs::sim
