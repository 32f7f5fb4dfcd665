// Addresses of RDMA: IP, and GIDs, which name a port of a device by themselves.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/address/destinations.hpp"
#include "backends/address/socket_address.hpp"

namespace rtrs::verbs {

// Takes what net::parse_address() takes, and "gid:fe80::2:c903:21:f4bd". Error: bad_address.
Result<net::SocketAddress> parse_address(std::string_view text, std::uint16_t port);
// Also takes a host name and returns all its addresses, in the order in which they are tried; empty: there is
// none. May wait 5 s for the name service.
std::vector<net::SocketAddress> resolve_addresses(std::string_view text, std::uint16_t port);

bool is_gid(const sockaddr*) noexcept;
// 0.0.0.0 or ::, which stand for every address.
bool is_wildcard(const sockaddr*) noexcept;
// "10.0.0.1:1234", "gid:[fe80::1]:1234"; "?" for nullptr.
std::string to_text(const sockaddr*);
// See net::address_pair_digest().
std::uint32_t address_pair_digest(const sockaddr* client, const sockaddr* server);
// Of the host that a client counts as: net::host_digest().
std::uint32_t host_digest(const sockaddr* client);

}  // namespace rtrs::verbs
