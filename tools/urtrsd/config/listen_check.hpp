// Checks whether the daemon could listen on the configured addresses now.
#pragma once
#include <string>
#include <vector>

#include "backends/platform/address/socket_address.hpp"
#include "tools/urtrsd/config/config.hpp"

namespace rtrs::daemon {

struct AddressProblem {
  std::string sentence;
  bool may_pass =
      false;  // may be temporary: the port is in use, for example by the urtrsd that will be restarted
};

// Returns 0 if a TCP socket can be bound to the address now, otherwise an errno.
int try_address(const net::SocketAddress& address);

// Binds each address briefly without listening. For verbs only the address is checked, because its ports are
// not TCP ports.
std::vector<AddressProblem> try_addresses(const DaemonConfig& config);

// Reasons why the control socket could not be created now. Only warnings, because urtrsd runs without
// the socket, and systemd may create the directory for the service.
std::vector<std::string> control_warnings(const DaemonConfig& config);

}  // namespace rtrs::daemon
