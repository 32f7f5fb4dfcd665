// Server of urtrs-perf: answers every request from memory at once.
#pragma once
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Runs until a signal. Returns an exit code.
int run_server(const Options&);

}  // namespace rtrs::perf
