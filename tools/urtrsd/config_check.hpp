// --check-config: tries what a start would, and says what fails.
#pragma once
#include <string>

#include "tools/urtrsd/config.hpp"

namespace rtrs::daemon {

// Adds lines to `result`, and its exit code where the start would fail.
void check_devices(const DaemonConfig&, const TryStart&, CommandLine& result);
// What the lines of an answer say, for programs: whether all is in order, and what is not.
std::string json_of(const CommandLine&);

}  // namespace rtrs::daemon
