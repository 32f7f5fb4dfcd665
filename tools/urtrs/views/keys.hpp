// `urtrs key`: pre-shared keys of TLS, in files.
#pragma once
#include <vector>

#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// Prints, and answers the exit code.
int run_key(const Command&);
std::vector<Field> key_fields();

}  // namespace rtrs::admin
