// Where the lines of this process go once it has started.
#pragma once

namespace rtrs::nbdkit {

// Takes the standard error that urtrs-mapd handed over; does nothing where nobody did. Call once.
void take_own_log();

// Whether lines need the time in front: neither the journal nor syslog reads them, which note it themselves,
// nor urtrs-mapd, which looks there for why the start failed until take_own_log().
bool log_needs_times();

}  // namespace rtrs::nbdkit
