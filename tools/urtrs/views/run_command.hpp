// What `urtrs map --run` runs.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tools/urtrs/command/map_words.hpp"

namespace rtrs::admin {

// Runs it in a shell, with these variables in its environment, and waits for its end. Its exit code; 128 and
// the number of a signal that ended it. A signal that asks this process to end is passed on.
int run_command(const std::string& command,
                const std::vector<std::pair<std::string, std::string>>& variables);

// Becomes an nbdkit that serves the device for as long as the command of --run takes: without urtrs-mapd.
// Returns only where that cannot be: an exit code.
int run_nbdkit(const MapWords& words, const Options& options);

}  // namespace rtrs::admin
