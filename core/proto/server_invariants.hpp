// Rules over the whole state of a server session that hold after every step, for tests and searches.
#pragma once
#include "core/proto/server_session.hpp"

namespace rtrs {

// Name of the first broken rule, or null. Linear in the depth and in the connections.
const char* broken_invariant(const ServerSession&) noexcept;

}  // namespace rtrs
