// Runs the command that `urtrs map --run` was given.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tools/urtrs/command/map_words.hpp"

namespace rtrs::admin {

// Runs `command` in a shell with additional environment variables and waits until it ends. Returns its exit
// code, or 128 plus the number of the signal that killed it. Forwards SIGINT, SIGTERM and SIGHUP to the
// command.
int run_command(const std::string& command,
                const std::vector<std::pair<std::string, std::string>>& variables);

// Used if there is no urtrs-mapd: replaces this process with an nbdkit that serves the device until the
// command of --run ends. If that fails, returns an exit code.
int run_nbdkit(const MapWords& words, const Options& options);

}  // namespace rtrs::admin
