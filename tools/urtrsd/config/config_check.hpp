// Implements --check-config: tests each step of a start and reports the steps that would fail.
#pragma once
#include <string>

#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

// Appends problems and warnings to `result`, and sets `exit_code` if a start would fail.
void check_devices(const DaemonConfig&, const TryStart&, CommandLine& result);
// Returns the result as JSON with the members "ok", "exit_code", "problems" and "warnings".
std::string json_of(const CommandLine&);

}  // namespace rtrs::daemon
