// What nbdkit was asked on its command line and does not tell a plugin before the first connection.
#pragma once
#include <string>
#include <vector>

namespace rtrs::nbdkit {

// Arguments of this process, from /proc/self/cmdline; empty where that cannot be read.
std::vector<std::string> own_command_line();

// Whether -r, --readonly or --read-only is given (nbdkit(1), version 1.32). Unknown options are skipped.
bool asks_for_read_only(const std::vector<std::string>& command_line);

// The socket of -U or --unix, made absolute; empty without one and for "-", where nbdkit chooses the name.
std::string unix_socket_of(const std::vector<std::string>& command_line,
                           const std::string& working_directory);

}  // namespace rtrs::nbdkit
