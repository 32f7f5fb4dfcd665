// Checks that traces of urtrsd do not overwrite exports or other files.
#pragma once

#include <string>
#include <vector>

#include "tools/urtrsd/config/config.hpp"
#include "tools/urtrsd/storage/catalog.hpp"

namespace rtrs::daemon {

// Returns the reason why a trace cannot or must not be written to `path`; empty if it can. The file of an
// export, and a file that is neither empty nor a trace, must not be overwritten.
std::string trace_path_problem(const Catalog& catalog, const std::string& path);

// Returns configuration errors about output files, one message each. Call it after Catalog::check().
std::vector<std::string> output_file_problems(const DaemonConfig& config, const Catalog& catalog);

}  // namespace rtrs::daemon
