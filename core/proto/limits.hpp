// Every bound of the protocol state machines, once. Bounds of the wire are in core/wire.
#pragma once
#include <cstdint>

namespace rtrs {

// Paths of one session. The kernel allows 128 (protocol section 1); ours are bounded by what a host has links
// for.
inline constexpr unsigned kMaxPaths = 8;

// Connections of one path that our client opens or our server accepts. A kernel client opens one a CPU plus
// one (protocol section 1.1), so this bounds the CPUs of a kernel client host.
inline constexpr unsigned kMaxCons = 136;

// Permits that a client session uses, and chunks that a server session offers. A server that announces more
// is used up to this many: the depth of the immediate encoding stays the announced one.
inline constexpr unsigned kMaxPermits = 1024;

// Sessions of one server. A connection key leaves 16 bits for session and path together.
inline constexpr unsigned kMaxSessions = 1024;
static_assert(kMaxSessions * kMaxPaths <= 0x10000);

// Actions one input may cause. Work that could exceed it is done in batches of kBatch, see
// wants_to_continue().
inline constexpr unsigned kMaxActionsPerStep = 192;
inline constexpr unsigned kBatch = 16;
static_assert(kMaxCons + kBatch * 3 <= kMaxActionsPerStep, "one step may end every connection of a path");

// A fence that is not answered is asked again after this time at the earliest, in nanoseconds.
inline constexpr std::uint64_t kShortestFenceTimeout = 1'000'000;

// Send queue entries that only heartbeats may use, so that a full queue cannot silence them.
inline constexpr unsigned kHeartbeatReserve = 2;

}  // namespace rtrs
