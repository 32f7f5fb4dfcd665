// Whether the addresses of a configuration can be listened on now.
#pragma once
#include <string>
#include <vector>

#include "backends/address/socket_address.hpp"
#include "tools/urtrsd/config.hpp"

namespace rtrs::daemon {

struct AddressProblem {
  std::string sentence;
  bool may_pass = false;  // a port that is in use now, by the urtrsd that is to be restarted for example
};

// Whether a TCP socket can be bound to the address now: 0, or an errno.
int try_address(const net::SocketAddress& address);

// Binds each for a moment, and listens on none. Of verbs, whose ports are not those of TCP, the address
// alone.
std::vector<AddressProblem> try_addresses(const DaemonConfig& config);

// Reasons why the control socket could not be made now. Only warnings: urtrsd runs without it, and systemd
// may make the folder for the service.
std::vector<std::string> control_warnings(const DaemonConfig& config);

}  // namespace rtrs::daemon
