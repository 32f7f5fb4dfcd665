// Translates a session machine of this build to the state with which the specification can begin.
#pragma once
#include "conformance/spec/known.hpp"
#include "core/proto/client_session.hpp"
#include "core/proto/server_session.hpp"

namespace rtrs::trace {

// `now`: time of the first input after the state.
spec::KnownSession known_state(const ClientSession& session, Nanos now);
spec::KnownSession known_state(const ServerSession& session, Nanos now);

}  // namespace rtrs::trace
