// One run of the tool.
#pragma once
#include "tools/urtrs-conform/options.hpp"

namespace rtrs::conformance {

// The exit code; prints results as they come.
int run(const Options&);

}  // namespace rtrs::conformance
