// Identity that the credentials of a client prove to a server.
#pragma once
#include <string>

#include "tools/lib/control/fabric/open_fabric.hpp"

namespace rtrs::tools {

// Returns the identity of the client's credentials on `fabric`. Empty if there are none, or if the identity
// is not known before the client connects. Reads the files, which may block.
std::string own_identity(const std::string& fabric, const TlsChoice&, const AuthChoice&);

}  // namespace rtrs::tools
