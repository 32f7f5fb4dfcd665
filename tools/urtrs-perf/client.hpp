// Client side of urtrs-perf: connects, measures one block size or all, and disconnects.
#pragma once
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Runs the client. Prints results as they become available. Returns the exit code.
int run_client(const Options&);

}  // namespace rtrs::perf
