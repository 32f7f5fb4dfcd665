// Results of the oracles: the first violated rule of a run, and the rare situations (marks) that the run
// reached.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "core/proto/ids.hpp"
#include "sim/oracles/marks.hpp"

namespace rtrs::sim {

// Id and rule of each oracle. Reports cite the ids, which never change their meaning. conformance/spec judges
// the rules for traces after the run.
#define RTRS_SIM_ORACLES(X)                                                                                  \
  X(exactly_once, "O1",                                                                                      \
    "every accepted request gets one callback, and success only if the server reported it")                  \
  X(slot_exclusivity, "O2",                                                                                  \
    "a chunk has one user at a time and its content does not change under that user")                        \
  X(data_integrity, "O3", "storage and application see whole sectors of known writes, at their place")       \
  X(history, "O4", "each sector is a register: no lost update, no effect outside the window of its write")   \
  X(ledger, "O5", "permits, connections, memory and keys return to their number when nothing is in flight")  \
  X(incarnation, "O6", "all connections that a path has at a time belong to one attempt")                    \
  X(legality, "O7", "honest peers never break the protocol, and no machine breaks its invariant")            \
  X(heartbeat, "O8",                                                                                         \
    "a path is declared dead only after silence, and after every silence within (missed_max + 2) intervals") \
  X(liveness, "O9", "after the faults every path connects and every request completes, within bounds")       \
  X(keys, "O10", "no peer uses an invalid key, and the key of a READ ends with its request")                 \
  X(posting, "O11", "work is posted where it is legal and fits, receives are posted in time (traces)")       \
  X(ownership, "O12", "only the owner accesses memory: nothing is reused before it is drained (traces)")     \
  X(wire, "O13", "every message has the form, the place and the order that the protocol gives it (traces)")  \
  X(links, "O14", "link events alternate and report whether a path is connected")                            \
  X(hostile, "O15", "a peer that violates the protocol loses its path and harms no other peer")              \
  X(determinism, "O16", "a seed always gives the same run")                                                  \
  X(specification, "O17", "the specification accepts every trace, and is never undetermined (traces)")       \
  X(laws, "O18", "the network keeps the laws of reliable connections")                                       \
  X(devices, "O19",                                                                                          \
    "block devices keep written data, report lost data, and complete each request as documented")            \
  X(promises, "O20", "the options of a client are kept: no timer expires early, none is missing")            \
  X(crowds, "O21",                                                                                           \
    "sessions of one client address stay within the limits, and the oldest half-open one is evicted")        \
  X(one_server, "O22", "a client creates no session at another server while it has one")                     \
  X(order, "O23",                                                                                            \
    "requests of one affinity keep their order, and each takes the path that the policy prefers (traces)")   \
  X(losses, "O24",                                                                                           \
    "a lost or refused connection ends its path at once, and the path event gives the reason")               \
  X(identities, "O25", "no connection joins a session of a client with another identity")                    \
  X(gate, "O26", "a server that requires keys refuses a client without one with EACCES")                     \
  X(adapters, "O27",                                                                                         \
    "adapters are used as their drivers demand: no overrun, nothing used after its end, nothing left "       \
    "behind")                                                                                                \
  X(addresses, "O28",                                                                                        \
    "each address of a host name is tried in turn, and a dead address delays the path only briefly")         \
  X(transitions, "O29", "a client path connects only from an attempt, and drains before it is reused")

// Oracles that are called for each event of a client (sim/oracles/client_oracle.hpp).
#define RTRS_SIM_CLIENT_ORACLES(X) X(links) X(transitions)

enum class Oracle : std::uint8_t {
#define RTRS_SIM_ORACLE(name, id, rule) name,
  RTRS_SIM_ORACLES(RTRS_SIM_ORACLE)
#undef RTRS_SIM_ORACLE
};
const char* id_of(Oracle) noexcept;
const char* rule_of(Oracle) noexcept;
#define RTRS_SIM_ORACLE(name, id, rule) +1
inline constexpr unsigned kOracles = RTRS_SIM_ORACLES(RTRS_SIM_ORACLE);
#undef RTRS_SIM_ORACLE

struct Failure {
  Oracle oracle = Oracle::liveness;
  std::string text;
  Nanos time = 0;           // virtual time
  std::uint64_t event = 0;  // number of world steps until the failure
};

class Judge {
 public:
  // Keeps only the first failure, because later ones are often its consequences.
  void fail(Oracle oracle, Nanos now, std::string text) {
    if (failed_ || excused_[static_cast<unsigned>(oracle)]) return;
    failed_ = true;
    failure_ = Failure{oracle, std::move(text), now, events_};
  }
  // Disables this rule for the rest of the run.
  void excuse(Oracle oracle) noexcept { excused_[static_cast<unsigned>(oracle)] = true; }
  bool failed() const noexcept { return failed_; }
  const Failure& failure() const noexcept { return failure_; }
  void count_event() noexcept { ++events_; }
  std::uint64_t events() const noexcept { return events_; }
  void mark(Mark mark) noexcept { marks_[static_cast<unsigned>(mark)] = true; }
  const std::array<bool, kMarks>& marks() const noexcept { return marks_; }

 private:
  bool failed_ = false;
  std::array<bool, kOracles> excused_{};
  Failure failure_;
  std::uint64_t events_ = 0;
  std::array<bool, kMarks> marks_{};
};

}  // namespace rtrs::sim
