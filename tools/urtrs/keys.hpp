// `urtrs key`: pre-shared keys of TLS, in files.
#pragma once
#include <vector>

#include "tools/urtrs/arguments.hpp"
#include "tools/urtrs/table.hpp"

namespace rtrs::admin {

// Prints, and answers the exit code.
int run_key(const Command&);
std::vector<Field> key_fields();

}  // namespace rtrs::admin
