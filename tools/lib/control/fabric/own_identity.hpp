// Finds the identity that the credentials of a client prove to a server.
#pragma once
#include <string>

#include "tools/lib/control/fabric/open_fabric.hpp"

namespace rtrs::tools {

// Returns the identity in the client's credentials for `fabric`. Returns an empty string if there are none,
// or if the identity is unknown until the client connects. Reads the files, which may block.
std::string own_identity(const std::string& fabric, const TlsChoice&, const AuthChoice&);

}  // namespace rtrs::tools
