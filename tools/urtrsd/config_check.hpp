// --check-config: tries what a start would, and says what fails.
#pragma once
#include <string>

#include "tools/urtrsd/config.hpp"

namespace rtrs::daemon {

// Adds lines to `result`, and its exit code where the start would fail.
void check_devices(const DaemonConfig&, const TryStart&, CommandLine& result);
// The answer for programs: "ok", "exit_code", and the lines as "problems" and "warnings".
std::string json_of(const CommandLine&);

}  // namespace rtrs::daemon
