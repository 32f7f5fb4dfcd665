// Every bound of the protocol state machines, once. The --help of each program lists its default limits.
// Bounds of the wire are in core/wire.
#pragma once
#include <cstdint>

namespace rtrs {

// Paths of one session, the protocol's maximum (protocol section 1). A session has room for kPathsInside from
// the start, and takes memory for more when they come.
inline constexpr unsigned kMaxPaths = 128;
inline constexpr unsigned kPathsInside = 8;

// Connections of one path, the protocol's maximum (protocol section 1). A kernel client opens one a CPU, one
// a poll queue and one more (protocol section 1.1). A path has room for kConsInside from the start.
inline constexpr unsigned kMaxCons = 4096;
inline constexpr unsigned kConsInside = 4;

// Permits that a client session uses, and chunks that a server session offers. A server that announces more
// is used up to this many: the depth of the immediate encoding stays the announced one.
inline constexpr unsigned kMaxPermits = 1024;

// Sessions of one server.
inline constexpr unsigned kMaxSessions = 16384;

// Fences of one server session that are not answered yet: every path may wait for a fence that was asked for
// over two paths, one after the other.
inline constexpr unsigned kMaxFences = 2 * kMaxPaths;
inline constexpr unsigned kFencesInside = 4;

// Actions one input may cause. Work that could exceed it is done in batches of kBatch, and of kConsPerStep
// where each connection of a path takes one, see wants_to_continue(). Beside them each path may take a few.
inline constexpr unsigned kBatch = 16;
inline constexpr unsigned kConsPerStep = 136;
inline constexpr unsigned kMaxActionsPerStep = 2 * kConsPerStep + 3 * kMaxPaths + 3 * kBatch;
static_assert(kConsPerStep + kMaxFences + 3 * kBatch <= kMaxActionsPerStep,
              "one step may end a batch of connections and answer every fence");

// A fence that is not answered is asked again after this time at the earliest, in nanoseconds.
inline constexpr std::uint64_t kShortestFenceTimeout = 1'000'000;

// Where a host name has several addresses, an attempt on one takes at most this long, in nanoseconds, in the
// first round through all. The time doubles with each round, up to ClientConfig::connect_timeout.
inline constexpr std::uint64_t kAddressTimeout = 2'000'000'000;

// Send queue entries that only heartbeats may use, so that a full queue cannot silence them.
inline constexpr unsigned kHeartbeatReserve = 2;

}  // namespace rtrs
