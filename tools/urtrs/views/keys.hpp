// `urtrs key` creates and lists files of pre-shared TLS keys.
#pragma once
#include <vector>

#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// Executes the command and prints its result. Returns the exit code.
int run_key(const Command&);
std::vector<Field> key_fields();

}  // namespace rtrs::admin
