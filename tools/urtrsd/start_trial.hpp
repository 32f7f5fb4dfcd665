// Tries for --check-config everything that urtrsd needs from its host at the start.
#pragma once

#include <optional>
#include <string>

#include "core/fabric/capabilities.hpp"
#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

// Reasons not to start; nothing: there is none.
std::optional<std::string> too_few_descriptors();
std::optional<std::string> why_no_invalidation(const DaemonConfig&, const Capabilities& fabric);

// Opens the storage engine, the fabric and the address of metrics for a moment.
StartTrial try_start(const DaemonConfig&);

}  // namespace rtrs::daemon
