// Wide worlds, one seed in some hundred: many paths of a session, or many connections of a path.
#pragma once
#include <cstdint>

#include "sim/world/scenario.hpp"

namespace rtrs::sim {

struct Wide {
  std::uint32_t paths = 0;        // 0: as drawn otherwise
  std::uint16_t connections = 0;  // of a path; 0: as drawn otherwise
};
Wide draw_wide(ChoiceSource&);
// Before the options that follow from the size of the world: one client and a slow heartbeat where a path has
// many connections, because the connections are made one after another.
void prepare(Scenario&, const Wide&);
// After all other options.
void widen(Scenario&, const Wide&);

}  // namespace rtrs::sim
