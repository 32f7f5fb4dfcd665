// RDMA addresses: IP addresses, and GIDs, which identify a port of a device.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/platform/address/destinations.hpp"
#include "backends/platform/address/socket_address.hpp"

namespace rtrs::verbs {

// Accepts everything that net::parse_address() accepts, and "gid:fe80::2:c903:21:f4bd". Error: bad_address.
Result<net::SocketAddress> parse_address(std::string_view text, std::uint16_t port);
// Also accepts a host name and returns all its addresses in the order to try them; empty if there is none.
// May block for 5 s for the name service.
std::vector<net::SocketAddress> resolve_addresses(std::string_view text, std::uint16_t port);

bool is_gid(const sockaddr*) noexcept;
// True for 0.0.0.0 and ::, which stand for all addresses.
bool is_wildcard(const sockaddr*) noexcept;
// Returns for example "10.0.0.1:1234" or "gid:[fe80::1]:1234"; "?" for nullptr.
std::string to_text(const sockaddr*);
// See net::address_pair_digest().
std::uint32_t address_pair_digest(const sockaddr* client, const sockaddr* server);
// Digest that identifies a client's host, for limits per host; see net::host_digest().
std::uint32_t host_digest(const sockaddr* client);

}  // namespace rtrs::verbs
