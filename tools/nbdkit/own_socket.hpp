// The Unix socket that nbdkit created for this process.
#pragma once
#include <string>

namespace rtrs::nbdkit {

// If this process listens on the socket at the absolute path `path`, removes the socket and returns true.
// Does nothing if `path` is empty, for example because systemd passed the socket to nbdkit.
bool remove_own_socket(const std::string& path);

}  // namespace rtrs::nbdkit
