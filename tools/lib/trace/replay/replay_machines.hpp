// Creates the protocol machines of this build for replay().
#pragma once
#include "tools/lib/trace/replay/replay.hpp"

namespace rtrs::trace {

// Handles the begin events of client session, server session, server registry, and of the device machines of
// client and server. Refuses invalid configurations. An input that no driver gives fails an assertion and
// aborts the program, as in the recorded program.
MachineFactory core_machines();
BlankFactory blank_core_machines();

// Returns why no machine can be created from the record; nullptr if it can.
const char* problem_of(const BeginClient&);
const char* problem_of(const BeginServerSession&);
const char* problem_of(const BeginServerDevices&);

}  // namespace rtrs::trace
