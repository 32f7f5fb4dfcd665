// Where the control sockets of daemons are when nobody says otherwise.
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::rpc {

// $URTRS_RUNTIME_DIR, else $RUNTIME_DIRECTORY, else /run/urtrs for the superuser, else
// $XDG_RUNTIME_DIR/urtrs, else /tmp/urtrs-UID. Only the superuser or this user can have made it.
std::string runtime_folder();

// A socket for this process in that folder, which is made where it is missing: "PROGRAM-PID.sock". Sockets
// there that processes left behind are removed. The error is a sentence.
tl::expected<std::string, std::string> make_socket_path(std::string_view program);

// Sockets of `program` in that folder and, unless $URTRS_RUNTIME_DIR is set, in /run/urtrs, by name.
// Processes that were killed have left theirs behind.
std::vector<std::string> sockets(std::string_view program);
// Those of them at which somebody listens.
std::vector<std::string> live_sockets(std::string_view program);

// The one of live_sockets(). The error says that there is none, or which there are.
tl::expected<std::string, Error> only_socket(std::string_view program);

}  // namespace rtrs::rpc
