// Sets the last part of --help, for the program and for each command: examples and exit codes.
#pragma once
#include <CLI/CLI.hpp>

namespace rtrs::sim_tool {

// Call after all commands have been added.
void set_footers(CLI::App&);

}  // namespace rtrs::sim_tool
