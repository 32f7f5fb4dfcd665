// Server side of urtrs-perf: answers every request immediately, from memory.
#pragma once
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Runs until a signal arrives. Returns the exit code.
int run_server(const Options&);

}  // namespace rtrs::perf
