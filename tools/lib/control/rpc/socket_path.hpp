// Default paths of the control sockets of daemons.
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::rpc {

// Returns the folder of control sockets: the first of $URTRS_RUNTIME_DIR, $RUNTIME_DIRECTORY, /run/urtrs
// (only for root), $XDG_RUNTIME_DIR/urtrs, /tmp/urtrs-UID. The other functions ignore or refuse a folder that
// belongs to another user, unless that user is root or the folder is /run/urtrs.
std::string runtime_folder();

// Returns the path of a socket for this process in runtime_folder(): "PROGRAM-PID.sock". Creates the folder
// if it is missing, and removes the sockets of dead processes of `program`. The error is a human-readable
// message.
tl::expected<std::string, std::string> make_socket_path(std::string_view program);

// Returns the sockets of `program` in runtime_folder() and, unless $URTRS_RUNTIME_DIR is set, in /run/urtrs;
// sorted by name within each folder. Includes sockets that killed processes left behind.
std::vector<std::string> sockets(std::string_view program);
// Returns the sockets from sockets() on which a process listens.
std::vector<std::string> live_sockets(std::string_view program);

// Returns the only socket in live_sockets(). The error says that there is none, or lists the sockets.
tl::expected<std::string, Error> only_socket(std::string_view program);

}  // namespace rtrs::rpc
