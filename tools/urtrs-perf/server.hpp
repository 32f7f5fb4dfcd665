// The server of urtrs-perf: a memory that answers every request at once.
#pragma once
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Until a signal. Returns an exit code.
int run_server(const Options&);

}  // namespace rtrs::perf
