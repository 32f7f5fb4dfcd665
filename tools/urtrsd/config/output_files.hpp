// Files that urtrsd writes: they never replace what somebody wants to keep.
#pragma once

#include <string>
#include <vector>

#include "tools/urtrsd/config/config.hpp"
#include "tools/urtrsd/storage/catalog.hpp"

namespace rtrs::daemon {

// Why no trace may be written there; empty: it may. `path` is that of an export, or of something that is
// neither an empty file nor a trace.
std::string why_no_trace(const Catalog& catalog, const std::string& path);

// Mistakes of the configuration, a sentence each. After Catalog::check().
std::vector<std::string> output_file_problems(const DaemonConfig& config, const Catalog& catalog);

}  // namespace rtrs::daemon
