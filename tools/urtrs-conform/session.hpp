// Runs the selected cases.
#pragma once
#include "tools/urtrs-conform/options.hpp"

namespace rtrs::conform_tool {

// Prints results as they become available. Returns the exit code.
int run(const Options&);

}  // namespace rtrs::conform_tool
