// Log of urtrs-mapd on standard error.
#pragma once
#include <string>

namespace rtrs::mapd {

// `severity` is a syslog(3) level: 3 error, 4 warning, 6 info. The level is part of the line if standard
// error is the systemd journal.
void log(int severity, const std::string& line);

// Adds a time stamp to all later lines, unless they go to the journal. Lines printed during the start need
// none, because the user sees them immediately.
void log_times();

}  // namespace rtrs::mapd
