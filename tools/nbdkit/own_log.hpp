// Selects where this process writes its log after the start.
#pragma once

namespace rtrs::nbdkit {

// If urtrs-mapd passed a log descriptor, redirects standard output and error to it. Call it once.
void take_own_log();

// True if log lines need a time stamp. Lines to the journal or to syslog need none, because the journal and
// syslog add the time. Before take_own_log(), lines to urtrs-mapd need none either, because urtrs-mapd
// extracts from these lines why a start failed.
bool log_needs_times();

}  // namespace rtrs::nbdkit
