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
      // The problem may be temporary: the port is in use, for example by the urtrsd that will be restarted.
      false;
};

// Returns 0 if a TCP socket can be bound to the address now, otherwise an errno.
int try_address(const net::SocketAddress& address);

// Binds each address briefly without listening. For the fabric verbs only the address is checked, because its
// ports are not TCP ports.
std::vector<AddressProblem> try_addresses(const DaemonConfig& config);

// Returns the reasons why the control socket could not be created now. The reasons are only warnings, because
// urtrsd also runs without a control socket and systemd may create the directory when it starts the service.
std::vector<std::string> control_warnings(const DaemonConfig& config);

}  // namespace rtrs::daemon
