// Sets the last part of --help, for the program and for each command: examples and exit codes.
#pragma once
#include <CLI/CLI.hpp>

namespace rtrs::tools {

// Call after all commands have been added.
void set_footers(CLI::App&);

}  // namespace rtrs::tools
