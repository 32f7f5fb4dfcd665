// The identity of a world for a search: two worlds have the same when whatever can happen in one can happen
// in the other.
//
// Left out or renamed, each because nothing that follows depends on it:
//   time        counts from now; deadlines beyond any run are never
//   attempts    of a path count back from its current one, fence serials from the next one
//   connections are named in the order of their path and cid, not by their number; so are the paths of the
//               server, and the incarnations that its chunks remember
//   blocks      are told apart by what happened to them, not by their number
//   leftovers   what is overwritten before it is read: of free permits, idle chunks, closed connections
// Paths and permits keep their numbers: the machines prefer the lower one, so two worlds that differ in it go
// on differently.
#pragma once
#include <cstdint>

#include "sim/model/machine_world.hpp"

namespace rtrs::explore {

// What the leaving out rests on: no jitter, no limit of attempts, no policy by latency, queues that never
// fill, heartbeats out of reach. Null, or what is wrong.
const char* why_not_canonical(const sim::MachineConfig&) noexcept;

// Not 0. Equal for worlds that are equal by fingerprint().
std::uint64_t canonical(const sim::MachineWorld&);

}  // namespace rtrs::explore
