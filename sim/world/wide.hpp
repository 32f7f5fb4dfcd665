// Wide worlds, about one seed in 150: a session with many paths, or a path with many connections.
#pragma once
#include <cstdint>

#include "sim/world/scenario.hpp"

namespace rtrs::sim {

struct Wide {
  std::uint32_t paths = 0;        // number of paths per client; 0: unchanged
  std::uint16_t connections = 0;  // number of connections per path; 0: unchanged
};
Wide draw_wide(ChoiceSource&);
// Called before the options are drawn that depend on the size of the world. If a path has many connections,
// sets one client and a slow heartbeat, because a path's connections are created one after another.
void prepare(Scenario&, const Wide&);
// Called after all other options.
void widen(Scenario&, const Wide&);

}  // namespace rtrs::sim
