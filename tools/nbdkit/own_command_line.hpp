// Options of nbdkit that a plugin needs before the first connection, read from the command line of the
// process.
#pragma once
#include <string>
#include <vector>

namespace rtrs::nbdkit {

// Arguments of this process from /proc/self/cmdline; empty if that cannot be read.
std::vector<std::string> own_command_line();

// True if -r, --readonly or --read-only is given (nbdkit(1), version 1.32). Skips unknown options.
bool asks_for_read_only(const std::vector<std::string>& command_line);

// Absolute path of the socket given by -U or --unix; empty if there is none, or for "-" (nbdkit chooses the
// name).
std::string unix_socket_of(const std::vector<std::string>& command_line,
                           const std::string& working_directory);

}  // namespace rtrs::nbdkit
