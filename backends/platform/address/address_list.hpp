// Addresses of a host name, in the order in which they are tried.
#pragma once
#include <vector>

#include "backends/platform/address/socket_address.hpp"

namespace rtrs::net {

// Maximum number of addresses used per name; the others are ignored.
inline constexpr std::size_t kMaxAddresses = 16;

// Returns the addresses in the order in which they are tried. `found` must be in the order of RFC 6724, as
// getaddrinfo(3) returns it. The result alternates between IPv4 and IPv6, so that a family without a route
// costs only one failed attempt (RFC 8305 section 4). Each address occurs once.
std::vector<SocketAddress> in_turn(const std::vector<SocketAddress>& found);

// Returns `found` in the order of `known`, with new addresses at the end. A name service may rotate its
// answer. If attempts followed the rotation, two in a row could go to the same address.
std::vector<SocketAddress> keep_known_order(const std::vector<SocketAddress>& known,
                                            std::vector<SocketAddress> found);

}  // namespace rtrs::net
