// Start-up of client and server.
#pragma once
#include <memory>

#include "core/fabric/fabric.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Returns null after printing an error if the fabric cannot be opened.
std::unique_ptr<Fabric> open_fabric(const Options&);
// Pins this process to options.cpu. Returns false after printing an error if that fails.
bool pin(const Options&);

}  // namespace rtrs::perf
