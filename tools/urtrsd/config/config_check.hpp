// --check-config: tries the steps of a start and reports those that fail.
#pragma once
#include <string>

#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

// Adds lines to `result`, and sets its exit code if the start would fail.
void check_devices(const DaemonConfig&, const TryStart&, CommandLine& result);
// The result as JSON: "ok", "exit_code", and the lines as "problems" and "warnings".
std::string json_of(const CommandLine&);

}  // namespace rtrs::daemon
