// The log of urtrs-mapd: lines on standard error.
#pragma once
#include <string>

namespace rtrs::mapd {

// `severity`: as of syslog, 3 error, 4 warning, 6 info; the journal of systemd is told.
void log(int severity, const std::string& line);

// Lines from now on have the time in front, where the journal does not note it. Before, they are read at once
// by whoever starts the program.
void log_times();

}  // namespace rtrs::mapd
