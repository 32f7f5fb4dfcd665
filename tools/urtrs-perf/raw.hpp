// The bare fabric: the two messages of an RTRS request with nothing around them. What a session costs is
// measured against it.
//     write: client writes `bytes` with immediate, server writes nothing with immediate
//     read:  client writes 64 bytes with immediate, server writes `bytes` with immediate
// One connection, busy polling, one completion in 32 asked for.
#pragma once
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Serves one client, or until a signal. Both return an exit code.
int run_raw_server(const Options&);
int run_raw_client(const Options&);

}  // namespace rtrs::perf
