// The identity of a world for a search: two worlds have the same identity if they have the same possible
// futures.
//
// Omitted or renamed, because the future does not depend on it:
//   time        relative to now; deadlines beyond any run count as never
//   attempts    of a path: counted back from the current one; fence serials: from the next one
//   connections named in the order of path and cid, not by number; likewise the paths of the server, and the
//               incarnations that its chunks remember
//   blocks      distinguished by their state, not by number
//   leftovers   state of free permits, idle chunks and closed connections that is never read again
// Paths and permits keep their numbers: the machines prefer the lower number, so two worlds that differ in a
// number have different futures.
#pragma once
#include <cstdint>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

// Checks the conditions for canonical(): no jitter, no limit of attempts, no policy by latency, queues that
// never fill, heartbeat intervals longer than any run. Returns the violated condition; nullptr if there is
// none.
const char* why_not_canonical(const sim::MachineConfig&) noexcept;

// Never 0. Equal for worlds with equal fingerprint().
std::uint64_t canonical(const sim::MachineWorld&);

}  // namespace rtrs::explore
