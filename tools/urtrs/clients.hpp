// Commands `urtrs client ...`, which use the control sockets of the clients of this host.
#pragma once
#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

// Executes a command for whose noun is_client() is true. Returns the exit code.
int run_client(const Command& command);

}  // namespace rtrs::admin
