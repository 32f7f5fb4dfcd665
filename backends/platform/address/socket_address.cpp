#include "backends/platform/address/socket_address.hpp"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace rtrs::net {
namespace {

using AddressBytes = std::array<std::uint8_t, 16>;

// Converts all addresses to IPv6, so that a host compares equal for IPv4 and IPv4-mapped packets.
AddressBytes canonical(const SocketAddress& address) {
  AddressBytes bytes{};
  if (address.family() == AF_INET6) {
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_addr, 16);
  } else {
    bytes[10] = bytes[11] = 0xff;
    std::memcpy(bytes.data() + 12, &reinterpret_cast<const sockaddr_in*>(address.get())->sin_addr, 4);
  }
  return bytes;
}

// Number of the interface of a link-local address; 0 for other addresses.
std::uint32_t scope_of(const SocketAddress& address) {
  return address.family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(address.get())->sin6_scope_id
                                      : 0;
}

std::uint32_t add_to_digest(std::uint32_t digest, const std::uint8_t* bytes, std::size_t length) {
  for (std::size_t i = 0; i < length; ++i) digest = (digest ^ bytes[i]) * 16777619u;
  return digest;
}

// Scope 0 leaves the digest unchanged, so that it equals the digest of earlier versions, which ignored
// scopes.
std::uint32_t add_scope_to_digest(std::uint32_t digest, std::uint32_t scope) {
  for (; scope != 0; scope >>= 8U) {
    const auto byte = static_cast<std::uint8_t>(scope);
    digest = add_to_digest(digest, &byte, 1);
  }
  return digest;
}

bool is_mapped(const AddressBytes& bytes) {
  return std::all_of(bytes.begin(), bytes.begin() + 10, [](auto b) { return b == 0; }) && bytes[10] == 0xff &&
         bytes[11] == 0xff;
}

bool parse_port(std::string_view text, std::uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size();
}

// Splits "[::1]:7", "[::1]", "1.2.3.4:7", "name:7"; an address with several colons and no brackets is IPv6.
bool split(std::string_view text, std::string& host, std::uint16_t& port) {
  if (!text.empty() && text.front() == '[') {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return false;
    host = text.substr(1, end - 1);
    const std::string_view rest = text.substr(end + 1);
    return rest.empty() || (rest.front() == ':' && parse_port(rest.substr(1), port));
  }
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos && text.find(':', colon + 1) == std::string_view::npos) {
    host = text.substr(0, colon);
    return parse_port(text.substr(colon + 1), port);
  }
  host = text;
  return true;
}

bool is_numeric_host(const std::string& host, SocketAddress* result = nullptr) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return false;
  if (result != nullptr) *result = from_raw(found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return true;
}

// Returns false if the text is neither an address nor a name.
bool split_host_and_port(std::string_view text, std::string& host, std::uint16_t& port) {
  if (text.substr(0, 3) == "ip:") text.remove_prefix(3);
  if (text.substr(0, 4) == "gid:") return false;  // a GID is never resolved
  return split(text, host, port) && !host.empty();
}

}  // namespace

std::uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(get())->sin6_port
                                    : reinterpret_cast<const sockaddr_in*>(get())->sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(get())->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(get())->sin_port = htons(port);
  }
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  return port() == other.port() && canonical(*this) == canonical(other) && scope_of(*this) == scope_of(other);
}

SocketAddress from_raw(const void* address, std::size_t length) {
  SocketAddress result;
  length = std::min(length, sizeof result.storage);
  if (address != nullptr) std::memcpy(&result.storage, address, length);
  result.length = static_cast<socklen_t>(length);
  return result;
}

Result<SocketAddress> parse_address(std::string_view text, std::uint16_t port) {
  std::string host;
  SocketAddress result;
  if (!split_host_and_port(text, host, port) || !is_numeric_host(host, &result))
    return tl::unexpected(Errc::bad_address);
  result.set_port(port);
  return result;
}

std::string host_of(std::string_view text) {
  std::string host;
  std::uint16_t port = 0;
  return split_host_and_port(text, host, port) ? host : std::string();
}

std::string host_name_in(std::string_view text, std::uint16_t* port) {
  std::string host;
  std::uint16_t found = port == nullptr ? 0 : *port;
  // A host name contains no colon. Text with a colon is an address, perhaps with a scope that is not an
  // interface of this host.
  if (!split_host_and_port(text, host, found) || host.find(':') != std::string::npos || is_numeric_host(host))
    return {};
  if (port != nullptr) *port = found;
  return host;
}

SocketAddress any_address(std::uint16_t port) {
  // An IPv6 wildcard socket also accepts IPv4 clients; used if the host supports IPv6.
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SocketAddress result;
  if (probe >= 0) {
    ::close(probe);
    result.storage.ss_family = AF_INET6;
    result.length = sizeof(sockaddr_in6);
  } else {
    result.storage.ss_family = AF_INET;
    result.length = sizeof(sockaddr_in);
  }
  result.set_port(port);
  return result;
}

namespace {

// "%eth0", or "%7" if no interface has the number any more; empty without a scope.
std::string scope_text(std::uint32_t scope) {
  if (scope == 0) return {};
  std::array<char, IF_NAMESIZE> name{};
  return "%" +
         (::if_indextoname(scope, name.data()) != nullptr ? std::string(name.data()) : std::to_string(scope));
}

}  // namespace

std::string to_text(const SocketAddress& address) {
  const AddressBytes bytes = canonical(address);
  char text[INET6_ADDRSTRLEN] = "?";
  const std::string port = std::to_string(address.port());
  if (is_mapped(bytes)) {
    inet_ntop(AF_INET, bytes.data() + 12, text, sizeof text);
    return std::string(text) + ":" + port;
  }
  inet_ntop(AF_INET6, bytes.data(), text, sizeof text);
  return "[" + std::string(text) + scope_text(scope_of(address)) + "]:" + port;
}

std::uint32_t host_digest(const SocketAddress& client) {
  const AddressBytes bytes = canonical(client);
  const std::size_t length = is_mapped(bytes) ? bytes.size() : 8;
  return add_scope_to_digest(add_to_digest(2166136261u, bytes.data(), length), scope_of(client));
}

std::uint32_t address_pair_digest(const SocketAddress& client, const SocketAddress& server) {
  std::uint32_t digest = 2166136261u;
  for (const AddressBytes& bytes : {canonical(client), canonical(server)})
    digest = add_to_digest(digest, bytes.data(), bytes.size());
  return add_scope_to_digest(digest, scope_of(server));
}

}  // namespace rtrs::net
