// Addresses of IPv4 and IPv6 as the connection manager has them.
#pragma once
#include <sys/socket.h>

#include <array>
#include <cstdint>

#include "conformance/mock_hca/world.hpp"

namespace rtrs::mock_hca {

// IPv4, IPv6.
std::array<sockaddr_storage, 2> addresses_of(const Adapter&);
// nullptr: of none that is there.
Adapter* adapter_of(const sockaddr&);
// Also one that was taken out.
Adapter* holder_of(const sockaddr&);
// Of the same, which there has to be.
std::size_t number_of(const sockaddr&);
std::uint16_t port_of(const sockaddr&);
void set_port(sockaddr&, std::uint16_t port);
bool is_loopback(const sockaddr&);
bool is_any(const sockaddr&);
bool same_host(const sockaddr&, const sockaddr&);
void copy(sockaddr& to, const sockaddr& from);

}  // namespace rtrs::mock_hca
