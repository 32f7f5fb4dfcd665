// The log of urtrs-mapd: lines on standard error.
#pragma once
#include <string>

namespace rtrs::mapd {

// `severity`: as of syslog, 3 error, 4 warning, 6 info; the journal of systemd is told.
void log(int severity, const std::string& line);

}  // namespace rtrs::mapd
