// Sockets that a provider opened and does not show. libfabric has no call to bound the time a client may take
// to send its connect request; the sockets themselves do.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/address/socket_address.hpp"

namespace rtrs::ofi {

struct AcceptedSocket {
  int fd = -1;
  ino_t inode = 0;
  net::SocketAddress local;
  net::SocketAddress peer;
};

// Connected sockets of this process whose local port is one of `ports`. Costs about 2 us for each descriptor
// of the process. Nothing when they could not be listed: /proc is not there, or no descriptor is left.
std::optional<std::vector<AcceptedSocket>> accepted_sockets(const std::vector<std::uint16_t>& ports);

// Sockets accepted by the unconnected socket bound to `name` give up a blocking read after this time.
// False: there is no such socket, as with providers that use none.
bool limit_blocking_reads(const net::SocketAddress& name, unsigned milliseconds);

// TCP_USER_TIMEOUT: the connection breaks when bytes stay without acknowledgement for this time. Of the
// unconnected socket bound to `name`, whose accepted sockets inherit it, and of the connected socket between
// two addresses. False: there is no such socket.
bool limit_undelivered(const net::SocketAddress& name, unsigned milliseconds);
bool limit_undelivered(const net::SocketAddress& local, const net::SocketAddress& peer,
                       unsigned milliseconds);

// True when bytes have arrived that nobody has read yet.
bool has_unread_bytes(int fd) noexcept;

}  // namespace rtrs::ofi
