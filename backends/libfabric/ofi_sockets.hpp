// Access to sockets that a provider opened and does not expose. libfabric cannot limit the time that a client
// may take for its connect request; socket options can.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/platform/address/socket_address.hpp"

namespace rtrs::ofi {

struct AcceptedSocket {
  int fd = -1;
  ino_t inode = 0;
  net::SocketAddress local;
  net::SocketAddress peer;
};

// Connected sockets of this process whose local port is in `ports`. Costs about 2 us per descriptor of the
// process. Returns nullopt if they could not be listed: /proc is missing, or no descriptor is left.
std::optional<std::vector<AcceptedSocket>> accepted_sockets(const std::vector<std::uint16_t>& ports);

// Limits the time of blocking reads on sockets that are accepted by the unconnected socket bound to `name`.
// Returns false if there is no such socket, as with providers that use none.
bool limit_blocking_reads(const net::SocketAddress& name, unsigned milliseconds);

// Sets TCP_USER_TIMEOUT: the connection fails if bytes stay unacknowledged for this time. The first form is
// for the unconnected socket bound to `name`, whose accepted sockets inherit it; the second for the connected
// socket between two addresses. Returns false if there is no such socket.
bool limit_undelivered(const net::SocketAddress& name, unsigned milliseconds);
bool limit_undelivered(const net::SocketAddress& local, const net::SocketAddress& peer,
                       unsigned milliseconds);

// True if the socket has received bytes that were not read yet.
bool has_unread_bytes(int fd) noexcept;

}  // namespace rtrs::ofi
