// Conversion of addresses between text, socket addresses, and the digest that the protocol compares.
#pragma once
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/fabric/fabric.hpp"

namespace rtrs::net {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  void set_port(std::uint16_t);
  // Compares address, scope and port; an IPv4-mapped IPv6 address equals the IPv4 address.
  bool operator==(const SocketAddress&) const;
};

// Accepts "ip:10.0.0.1", "10.0.0.1", "ip:::1", "::1", "[::1]", "[::1]:7", "10.0.0.1:7", "fe80::1%eth0" and
// host names, with or without "ip:"; a port in the text overrides `port`. Returns all addresses in the order
// to try them; empty on failure, with the reason in `why`. Only host names are resolved, which may block for
// 5 s; use HostNames (host_names.hpp) where blocking is not allowed.
std::vector<SocketAddress> resolve(std::string_view text, std::uint16_t port, std::string* why = nullptr);
// Returns numeric addresses to listen on, without a port: all addresses of a host name, else `text` itself.
// Empty if the name has none, with the reason in `why`.
std::vector<std::string> listen_addresses(const std::string& text, std::string& why);
// Parses a numeric address; never blocks. Error: bad_address.
Result<SocketAddress> parse_address(std::string_view text, std::uint16_t port);
// Returns the host name in a text that resolve() accepts; empty if there is none to resolve. Stores a port in
// the text in `port`.
std::string host_name_in(std::string_view text, std::uint16_t* port = nullptr);
// Returns only the host of a text that resolve() accepts, without brackets; empty if the text is invalid.
std::string host_of(std::string_view text);
SocketAddress any_address(std::uint16_t port);
SocketAddress from_raw(const void* address, std::size_t length);

// Returns for example "10.0.0.1:1234", "[::1]:1234" or "[fe80::1%eth0]:1234".
std::string to_text(const SocketAddress&);

// Digest of both addresses without their ports.
std::uint32_t address_pair_digest(const SocketAddress& client, const SocketAddress& server);
// Digest that identifies a client's host, for limits per host: the address without the port. For IPv6, the
// first 64 bits and the scope, because one host may use any address in its /64 network.
std::uint32_t host_digest(const SocketAddress& client);

}  // namespace rtrs::net
