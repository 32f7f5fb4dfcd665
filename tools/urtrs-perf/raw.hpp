// The bare fabric: only the two messages of an RTRS request. Reference for measuring the overhead of a
// session.
//     write: client writes `bytes` with immediate, server writes nothing with immediate
//     read:  client writes 64 bytes with immediate, server writes `bytes` with immediate
// One connection, busy polling, one signalled completion in 32.
#pragma once
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// run_raw_server() serves one client, or waits for one until a signal arrives. Both functions return an exit
// code.
int run_raw_server(const Options&);
int run_raw_client(const Options&);

}  // namespace rtrs::perf
