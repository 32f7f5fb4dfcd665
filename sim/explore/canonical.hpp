// The identity of a world for a search: two worlds have the same identity if they have the same possible
// futures.
//
// The future does not depend on the following, which is therefore left out or renumbered:
//   time        counts relative to now; deadlines beyond any run count as never
//   attempts    of a path are counted back from the current one, fence serials from the next one
//   connections are named in the order of path and cid, not by number; likewise the paths of the server, and
//               the incarnations that its chunks remember
//   blocks      are distinguished by their state, not by number
//   leftovers   (state of free permits, idle chunks and closed connections) are left out if never read again
// Paths and permits keep their numbers: the machines prefer the lower number, so two worlds that differ in a
// number have different futures.
#pragma once
#include <cstdint>

#include "sim/explore/renaming.hpp"
#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

// Returns the first condition of canonical() that the configuration violates, or nullptr. The conditions: no
// jitter, no maximum number of attempts, no policy by latency, queues that never fill, heartbeat intervals
// longer than any run.
const char* why_not_canonical(const sim::MachineConfig&) noexcept;

// Result of canonical() for the client of one world.
struct ClientMemo {
  bool known = false;
  Epochs epochs;
  Nanos now = 0;
  std::uint64_t hash = 0;
};
// Returns the identity, never 0. Worlds with equal fingerprint() have equal identities. `memo`: shared by all
// worlds that were made from one world by undo() and one step; may be null.
std::uint64_t canonical(const sim::MachineWorld&, ClientMemo* memo = nullptr);

}  // namespace rtrs::explore
