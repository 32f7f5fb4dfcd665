// What both ends need to begin.
#pragma once
#include <memory>

#include "core/fabric/fabric.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Null when it cannot be opened; standard error says why.
std::unique_ptr<Fabric> open_fabric(const Options&);
// Runs this process on options.cpu. False and a message when that is not possible.
bool pin(const Options&);

}  // namespace rtrs::perf
