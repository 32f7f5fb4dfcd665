// Runs the selected cases.
#pragma once
#include "tools/urtrs-conform/options.hpp"

namespace rtrs::conform_tool {

// Runs the cases and prints each result as it becomes available. Returns the exit code.
int run(const Options&);

}  // namespace rtrs::conform_tool
