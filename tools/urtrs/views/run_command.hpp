// The command of `urtrs map --run`.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tools/urtrs/command/map_words.hpp"

namespace rtrs::admin {

// Runs the command in a shell with these environment variables and waits until it ends. Returns its exit
// code, or 128 plus the number of the signal that killed it. Forwards SIGINT, SIGTERM and SIGHUP to the
// command.
int run_command(const std::string& command,
                const std::vector<std::pair<std::string, std::string>>& variables);

// Without urtrs-mapd: replaces this process with an nbdkit that serves the device while the command of --run
// runs. Returns an exit code only if that fails.
int run_nbdkit(const MapWords& words, const Options& options);

}  // namespace rtrs::admin
