// Files that a failing run writes for analysis: traces, a capture for Wireshark, a sequence diagram as HTML,
// and a report.
#pragma once
#include <string>
#include <vector>

#include "tools/lib/trace/sequence/build.hpp"
#include "tools/urtrs-sim/report.hpp"

namespace rtrs::sim_tool {

// Runs with traces at FOLDER/NAME.*. After a failure, writes the other files, too, and prints their names.
// Returns the exit code of the run.
int run_with_artifacts(const ReportOptions& options, const std::string& folder, const std::string& name);

// Returns the verdict of the specification as text. Adds the findings to `marks`, which the diagram shows.
std::string judgement(const std::vector<std::string>& traces,
                      std::vector<tools::sequence::WantedMark>& marks);

// Creates PREFIX.pcapng, PREFIX.html and PREFIX.txt from PREFIX.*.rtrc. The text file contains `said` and the
// verdict of the specification on each trace. Prints the names of the files. Reports on stderr which files
// cannot be created.
void write_artifacts(const std::string& prefix, const std::string& said, const RunNotes& notes);

}  // namespace rtrs::sim_tool
