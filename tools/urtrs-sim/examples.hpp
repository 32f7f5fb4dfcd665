// Last part of --help: examples and exit codes of the program and of each command.
#pragma once
#include <CLI/CLI.hpp>

namespace rtrs::sim_tool {

// Call it after all commands were added.
void set_footers(CLI::App&);

}  // namespace rtrs::sim_tool
