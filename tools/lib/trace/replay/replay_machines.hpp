// Creates the protocol state machines of this build for replay().
#pragma once
#include "tools/lib/trace/replay/replay.hpp"

namespace rtrs::trace {

// Handles the begin events of client sessions, server sessions, the server registry, and the device state
// machines of both sides. Refuses invalid configurations. An input that no driver can produce fails an
// assertion and aborts the program, as it would have aborted the recording program.
MachineFactory core_machines();
BlankFactory blank_core_machines();

// Returns the reason why no state machine can be created from the record; nullptr if it can.
const char* problem_of(const BeginClient&);
const char* problem_of(const BeginServerSession&);
const char* problem_of(const BeginServerDevices&);

}  // namespace rtrs::trace
