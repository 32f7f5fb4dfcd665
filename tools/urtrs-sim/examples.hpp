// What --help says last: examples and exit codes, of the program and of each command.
#pragma once
#include <CLI/CLI.hpp>

namespace rtrs::tools {

// After all commands are there.
void set_footers(CLI::App&);

}  // namespace rtrs::tools
