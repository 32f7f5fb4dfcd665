// The tables behind sim/directed.hpp.
#pragma once
#include <span>

#include "sim/directed.hpp"

namespace rtrs::sim {

std::span<const Directed> connecting_scenarios();  // handshake, reconnect, sessions
std::span<const Directed> failover_scenarios();    // lost paths and what becomes of their requests
std::span<const Directed> load_scenarios();        // heartbeats, queues, permits, storage, operators

}  // namespace rtrs::sim
