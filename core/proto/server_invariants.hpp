// Rules over the whole state of a server session that hold after every step, for tests and searches.
#pragma once
#include "core/proto/server_session.hpp"

namespace rtrs {

// Name of the first broken rule, or null. Linear in the depth and in the connections. Safe for any state,
// also for one that was read from a damaged snapshot.
const char* broken_invariant(const ServerSession&) noexcept;

}  // namespace rtrs
