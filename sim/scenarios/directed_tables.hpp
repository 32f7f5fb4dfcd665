// The tables behind sim/scenarios/directed.hpp.
#pragma once
#include <span>

#include "sim/scenarios/directed.hpp"

namespace rtrs::sim {

std::span<const Directed> connecting_scenarios();  // handshake, reconnect, sessions
std::span<const Directed> failover_scenarios();    // lost paths and what becomes of their requests
std::span<const Directed> permit_scenarios();      // requests that wait for a permit
std::span<const Directed> load_scenarios();        // heartbeats, queues, permits, storage, operators
std::span<const Directed> teardown_scenarios();    // sessions, paths and servers that are closed
std::span<const Directed> process_scenarios();     // processes that die, stop and come back otherwise
std::span<const Directed> silence_scenarios();     // heartbeats without load, links that go together
std::span<const Directed> shortage_scenarios();    // adapters, memory, addresses that are not there
std::span<const Directed> lying_client_scenarios();
std::span<const Directed> lying_server_scenarios();

}  // namespace rtrs::sim
