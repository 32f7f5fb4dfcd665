// `urtrs client`: the clients of this host, each with a control socket of its own.
#pragma once
#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

// A command whose noun is_client(). The exit code.
int run_client(const Command& command);

}  // namespace rtrs::admin
