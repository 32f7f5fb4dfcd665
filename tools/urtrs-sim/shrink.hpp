// `urtrs-sim shrink`: reduces a failing run to the choices that the failure needs.
#pragma once
#include <string>

#include "tools/urtrs-sim/one_run.hpp"

namespace rtrs::sim_tool {

struct ShrinkCommand : RunName {
  std::string out;  // output file; empty: urtrs-sim-SEED.choices
  double seconds = 30;
};
// Returns the exit code of the failing run; 0 if there is nothing to shrink.
int shrink_and_report(const ShrinkCommand&);

}  // namespace rtrs::sim_tool
