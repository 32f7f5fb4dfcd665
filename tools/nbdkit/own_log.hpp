// Log output of this process after its start.
#pragma once

namespace rtrs::nbdkit {

// Switches standard output and error to the log descriptor passed by urtrs-mapd, if any. Call it once.
void take_own_log();

// True if log lines need a time stamp. False if the journal or syslog receives them, which add the time, or,
// until take_own_log(), urtrs-mapd, which reads the reason of a failed start from them.
bool log_needs_times();

}  // namespace rtrs::nbdkit
