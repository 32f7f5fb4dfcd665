// The Unix socket that nbdkit created for this process.
#pragma once
#include <string>

namespace rtrs::nbdkit {

// Removes the socket at the absolute `path` if this process listens on it. No effect if `path` is empty, for
// example because systemd passed the socket to nbdkit. Returns true if a socket was removed.
bool remove_own_socket(const std::string& path);

}  // namespace rtrs::nbdkit
