// Client of urtrs-perf: connects, measures one or all block sizes, and disconnects.
#pragma once
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Prints results as they become available. Returns an exit code.
int run_client(const Options&);

}  // namespace rtrs::perf
