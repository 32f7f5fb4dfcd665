// Checks that the trace files of urtrsd do not overwrite exports or other files.
#pragma once

#include <string>
#include <vector>

#include "tools/urtrsd/config/config.hpp"
#include "tools/urtrsd/storage/catalog.hpp"

namespace rtrs::daemon {

// Returns the reason why a trace must not or cannot be written to `path`; empty if it can. Rejects the file
// of an export, and a file that is neither empty nor a trace.
std::string trace_path_problem(const Catalog& catalog, const std::string& path);

// Configuration errors about output files, one sentence each. Call it after Catalog::check().
std::vector<std::string> output_file_problems(const DaemonConfig& config, const Catalog& catalog);

}  // namespace rtrs::daemon
