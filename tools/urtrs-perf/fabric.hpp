// Steps at the start of both client and server.
#pragma once
#include <memory>

#include "core/fabric/fabric.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Opens the fabric. If that fails, prints an error and returns null.
std::unique_ptr<Fabric> open_fabric(const Options&);
// Pins this process to options.cpu. If that fails, prints an error and returns false.
bool pin(const Options&);

}  // namespace rtrs::perf
