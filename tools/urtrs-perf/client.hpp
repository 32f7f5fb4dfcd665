// The client of urtrs-perf: connects, measures one size or all, disconnects.
#pragma once
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Prints as it goes; returns an exit code.
int run_client(const Options&);

}  // namespace rtrs::perf
