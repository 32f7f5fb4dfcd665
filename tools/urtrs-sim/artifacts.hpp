// Files that a failing run writes for analysis: traces, a capture for Wireshark, a sequence diagram as HTML,
// and a report.
#pragma once
#include <cstddef>
#include <string>

#include "tools/urtrs-sim/report.hpp"

namespace rtrs::sim_tool {

// Maximum number of steps of a sequence diagram, because larger pages are slow in a browser. The last steps
// are kept, because most failures are near the end.
inline constexpr std::size_t kMostSteps = 20'000;

// Runs with traces at FOLDER/NAME.*. After a failure, writes the other files, too, and prints their names.
// Returns the exit code of the run.
int run_with_artifacts(const ReportOptions& options, const std::string& folder, const std::string& name);

// Creates PREFIX.pcapng, PREFIX.html and PREFIX.txt from PREFIX.*.rtrc. The text file contains `said` and the
// verdict of the specification on each trace. Prints the names of the files. Reports on stderr which files
// cannot be created.
void write_artifacts(const std::string& prefix, const std::string& said);

}  // namespace rtrs::sim_tool
