// Violations of the protocol by one process of a random world.
#pragma once
#include "sim/choices/choice.hpp"
#include "sim/net/basic/corrupting_fabric.hpp"
#include "sim/world/scenario.hpp"

namespace rtrs::sim {

// Draws one violation by the server or by a client, on one of `paths` paths of `cons` connections.
CorruptingFabric::Plan draw_lie(ChoiceSource&, bool by_server, std::uint32_t paths, std::uint32_t cons);

// Draws a process that violates the protocol: the server or the last client. Removes options that could not
// be judged in such a run, for example disks.
void draw_liar(ChoiceSource&, Scenario&);

}  // namespace rtrs::sim
