// Reads from the command line of this process the options of nbdkit that the plugin needs before the first
// connection.
#pragma once
#include <string>
#include <vector>

namespace rtrs::nbdkit {

// Returns the arguments of this process from /proc/self/cmdline; empty if the file cannot be read.
std::vector<std::string> own_command_line();

// True if -r, --readonly or --read-only is given (nbdkit(1), version 1.32). Unknown options are skipped.
bool asks_for_read_only(const std::vector<std::string>& command_line);

// Returns the absolute path of the socket that -U or --unix names; empty without these options, or for "-",
// which makes nbdkit choose the name.
std::string unix_socket_of(const std::vector<std::string>& command_line,
                           const std::string& working_directory);

}  // namespace rtrs::nbdkit
