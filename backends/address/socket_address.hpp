// Addresses as text, as socket addresses, and as the digest that the protocol compares.
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
  // Address, scope and port; IPv4-mapped IPv6 addresses equal the IPv4 address.
  bool operator==(const SocketAddress&) const;
};

// Takes "ip:10.0.0.1", "10.0.0.1", "ip:::1", "::1", "[::1]", "[::1]:7", "10.0.0.1:7", "fe80::1%eth0" and host
// names, with or without "ip:"; a port in the text wins over `port`. All addresses, in the order in which
// they are tried; empty, and `why` in words: none. Only a host name is looked up, which may take 5 s: what
// must not wait asks HostNames (host_names.hpp).
std::vector<SocketAddress> resolve(std::string_view text, std::uint16_t port, std::string* why = nullptr);
// Addresses to listen on, in figures, without a port: of a host name all, else `text` itself. Empty, and
// `why` in words: the name has none.
std::vector<std::string> listen_addresses(const std::string& text, std::string& why);
// An address in figures; never waits. Error: bad_address.
Result<SocketAddress> parse_address(std::string_view text, std::uint16_t port);
// The host name of such a text; empty where there is none to be looked up. A port in the text goes to `port`.
std::string host_name_in(std::string_view text, std::uint16_t* port = nullptr);
// The host of such a text alone, without brackets; empty where it is no address.
std::string host_of(std::string_view text);
SocketAddress any_address(std::uint16_t port);
SocketAddress from_raw(const void* address, std::size_t length);

// "10.0.0.1:1234", "[::1]:1234", "[fe80::1%eth0]:1234"
std::string to_text(const SocketAddress&);

// Digest of both addresses without their ports.
std::uint32_t address_pair_digest(const SocketAddress& client, const SocketAddress& server);
// Digest of the host that a client counts as: its address without the port, of IPv6 the first 64 bits and the
// scope, because one host may use any address behind them.
std::uint32_t host_digest(const SocketAddress& client);

}  // namespace rtrs::net
