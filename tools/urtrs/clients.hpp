// `urtrs client`: commands for the clients of this host, through their control sockets.
#pragma once
#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

// Runs a command whose noun is_client(). Returns the exit code.
int run_client(const Command& command);

}  // namespace rtrs::admin
