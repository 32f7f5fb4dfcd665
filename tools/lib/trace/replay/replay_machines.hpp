// The protocol machines of this build, for replay().
#pragma once
#include "tools/lib/trace/replay/replay.hpp"

namespace rtrs::trace {

// Knows the begin events of client session, server session, server registry and of the devices of client
// and server.
// Refuses configurations that a machine cannot be made from; inputs that no driver would feed stop the
// program, as they would have stopped the one that recorded.
MachineFactory core_machines();
BlankFactory blank_core_machines();

// Why no machine can be made from what the record says; null where one can.
const char* problem_of(const BeginClient&);
const char* problem_of(const BeginServerSession&);
const char* problem_of(const BeginServerDevices&);

}  // namespace rtrs::trace
