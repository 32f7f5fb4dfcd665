// What a failing run leaves for a person: its traces, a capture for Wireshark, the sequence diagram as a
// page, and a report.
#pragma once
#include <string>

#include "tools/urtrs-sim/report.hpp"

namespace rtrs::tools {

// Runs it with traces at FOLDER/NAME.*, and where it failed prints the files that it left there. The exit
// code.
int run_with_artifacts(const ReportOptions& options, const std::string& folder, const std::string& name);

// From PREFIX.*.rtrc makes PREFIX.pcapng, PREFIX.html and PREFIX.txt, which has `said` and what the
// specification says of each trace. Prints the names of all; what cannot be made is named on stderr.
void leave_artifacts(const std::string& prefix, const std::string& said);

}  // namespace rtrs::tools
