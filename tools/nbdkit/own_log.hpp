// Where this process writes its log after the start.
#pragma once

namespace rtrs::nbdkit {

// If urtrs-mapd passed a log descriptor, redirects standard output and error to it. Call it once.
void take_own_log();

// True if log lines need a time stamp. They need none if they go to the journal or to syslog, which add the
// time. Until take_own_log(), they also need none if urtrs-mapd receives them, because it reads from them why
// a start failed.
bool log_needs_times();

}  // namespace rtrs::nbdkit
