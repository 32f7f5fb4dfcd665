// All limits of the protocol state machines. The --help of each program lists its default limits. Limits of
// the wire format are in core/wire.
#pragma once
#include <cstdint>

namespace rtrs {

// Maximum number of paths per session, by protocol (protocol section 1). A session contains room for
// kPathsInside paths and allocates memory for more when they are added.
inline constexpr unsigned kMaxPaths = 128;
inline constexpr unsigned kPathsInside = 8;

// Maximum number of connections per path, by protocol (protocol section 1). A kernel client opens one per
// CPU, one per poll queue and one more (protocol section 1.1). A path contains room for kConsInside
// connections.
inline constexpr unsigned kMaxCons = 4096;
inline constexpr unsigned kConsInside = 4;

// Maximum number of permits that a client session uses, and of chunks that a server session offers. If a
// server announces more chunks, the client uses only this many, but encodes immediates with the announced
// depth.
inline constexpr unsigned kMaxPermits = 1024;

// Maximum number of sessions per server.
inline constexpr unsigned kMaxSessions = 16384;

// Maximum number of unanswered fences of a server session: the fence of each path may be requested over two
// paths, one after the other.
inline constexpr unsigned kMaxFences = 2 * kMaxPaths;
inline constexpr unsigned kFencesInside = 4;

// kMaxActionsPerStep: maximum number of actions that one input causes. Longer work is done in batches
// (wants_to_continue()): of kBatch actions, or of kConsPerStep if each connection of a path needs one. In
// addition, each path may cause a few actions.
inline constexpr unsigned kBatch = 16;
inline constexpr unsigned kConsPerStep = 136;
inline constexpr unsigned kMaxActionsPerStep = 2 * kConsPerStep + 3 * kMaxPaths + 3 * kBatch;
static_assert(kConsPerStep + kMaxFences + 3 * kBatch <= kMaxActionsPerStep,
              "one step may end a batch of connections and answer every fence");

// Minimum time before an unanswered fence request is repeated, in nanoseconds.
inline constexpr std::uint64_t kMinFenceTimeout = 1'000'000;

// If a host name has several addresses: time limit of a connection attempt to one address during the first
// round, in nanoseconds. Doubles with each round, up to ClientConfig::connect_timeout.
inline constexpr std::uint64_t kAddressTimeout = 2'000'000'000;

// Send queue entries that only heartbeats may use, so that a full queue cannot block them.
inline constexpr unsigned kHeartbeatReserve = 2;

}  // namespace rtrs
