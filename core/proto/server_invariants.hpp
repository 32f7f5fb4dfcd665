// Invariants of the state of a server session after every step, for tests and state searches.
#pragma once
#include "core/proto/server_session.hpp"

namespace rtrs {

// Returns the name of the first violated invariant, or null. Linear in the depth and in the number of
// connections. Safe for any state, even one that was read from a damaged snapshot.
const char* broken_invariant(const ServerSession&) noexcept;

}  // namespace rtrs
