// `urtrs-sim blame`: draws the rest of a failing run again from many points, and shows how likely the failure
// was at each of them.
#pragma once
#include <cstddef>
#include <string>

#include "tools/urtrs-sim/one_run.hpp"

namespace rtrs::sim_tool {

struct BlameCommand : RunName {
  std::size_t points = 32;   // points of the first round
  std::size_t redraws = 24;  // rests drawn from each point
  std::string page;          // HTML file with the curve and the sequence diagram; empty: none
  unsigned jobs = 1;
};
// Returns the exit code of the failing run; 0 if it does not fail.
int blame_and_report(const BlameCommand& command);

}  // namespace rtrs::sim_tool
