// IPv4 and IPv6 addresses of the adapters, as the connection manager uses them.
#pragma once
#include <sys/socket.h>

#include <array>
#include <cstdint>

#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {

// Returns the IPv4 and the IPv6 address of an adapter.
std::array<sockaddr_storage, 2> addresses_of(const Adapter&);
// Returns the adapter that owns the address; nullptr if there is none or it was removed.
Adapter* adapter_of(const sockaddr&);
// Returns the adapter that owns the address, even if it was removed; nullptr if there is none.
Adapter* holder_of(const sockaddr&);
// Returns the index of the adapter that owns the address; there must be one.
std::size_t number_of(const sockaddr&);
std::uint16_t port_of(const sockaddr&);
void set_port(sockaddr&, std::uint16_t port);
bool is_loopback(const sockaddr&);
bool is_any(const sockaddr&);
bool same_host(const sockaddr&, const sockaddr&);
void copy(sockaddr& to, const sockaddr& from);

}  // namespace rtrs::mock_hca
