// Measures the bare fabric with only the two messages of an RTRS request, as the reference for the overhead
// of a session.
//     write: client writes `bytes` with immediate, server writes nothing with immediate
//     read:  client writes 64 bytes with immediate, server writes `bytes` with immediate
// Uses one connection and busy polling; one work request in 32 is signalled.
#pragma once
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// run_raw_server() waits for one client and serves it; a signal ends the server earlier. Both functions
// return an exit code.
int run_raw_server(const Options&);
int run_raw_client(const Options&);

}  // namespace rtrs::perf
