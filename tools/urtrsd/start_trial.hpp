// Tests for --check-config whether the host has everything that urtrsd needs to start.
#pragma once

#include <optional>
#include <string>

#include "core/fabric/capabilities.hpp"
#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

// Both functions return the reason why urtrsd must not start, or nullopt.
std::optional<std::string> too_few_descriptors();
std::optional<std::string> missing_invalidation(const DaemonConfig&, const Capabilities& fabric);

// Opens the storage engine, the fabric and the metrics address, then closes them again.
StartTrial try_start(const DaemonConfig&);

}  // namespace rtrs::daemon
