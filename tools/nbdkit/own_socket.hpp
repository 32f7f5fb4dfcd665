// The UNIX socket that nbdkit made for this process.
#pragma once
#include <string>

namespace rtrs::nbdkit {

// Removes the socket at `path`, absolute, if this process listens on it; empty: nothing. Of a socket that was
// handed over by systemd nbdkit's command line has no path, so that it stays. False when nothing was removed.
bool remove_own_socket(const std::string& path);

}  // namespace rtrs::nbdkit
