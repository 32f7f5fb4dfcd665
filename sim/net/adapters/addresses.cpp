#include "sim/net/adapters/addresses.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace rtrs::mock_hca {

std::array<sockaddr_storage, 2> addresses_of(const Adapter& adapter) {
  std::array<sockaddr_storage, 2> both{};
  const auto last = static_cast<std::uint8_t>(adapter.number + 1);
  auto& four = reinterpret_cast<sockaddr_in&>(both[0]);
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(0xc0000200U + last);
  auto& six = reinterpret_cast<sockaddr_in6&>(both[1]);
  six.sin6_family = AF_INET6;
  inet_pton(AF_INET6, "2001:db8::", &six.sin6_addr);
  six.sin6_addr.s6_addr[15] = last;
  return both;
}

std::uint16_t port_of(const sockaddr& address) {
  return ntohs(address.sa_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}
void set_port(sockaddr& address, std::uint16_t port) {
  (address.sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                 : reinterpret_cast<sockaddr_in&>(address).sin_port) = htons(port);
}
bool is_any(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == INADDR_ANY;
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}
bool is_loopback(const sockaddr& address) {
  return address.sa_family == AF_INET &&
         ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
}
bool same_host(const sockaddr& a, const sockaddr& b) {
  if (a.sa_family != b.sa_family) return false;
  if (a.sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}
void copy(sockaddr& to, const sockaddr& from) {
  std::memcpy(&to, &from, from.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
}

std::size_t number_of(const sockaddr& address) {
  const std::uint8_t* const bytes =
      address.sa_family == AF_INET
          ? reinterpret_cast<const std::uint8_t*>(&reinterpret_cast<const sockaddr_in&>(address).sin_addr) + 3
          : reinterpret_cast<const sockaddr_in6&>(address).sin6_addr.s6_addr + 15;
  return world().holders[std::size_t{*bytes} - 1];
}

Adapter* adapter_of(const sockaddr& address) {
  Adapter* const holder = holder_of(address);
  return holder == nullptr || holder->removed ? nullptr : holder;
}

Adapter* holder_of(const sockaddr& address) {
  for (const auto& one : world().adapters) {
    Adapter& holder = *world().adapters[world().holders[one->number]];
    for (const sockaddr_storage& own : addresses_of(*one))
      if (same_host(reinterpret_cast<const sockaddr&>(own), address)) return &holder;
  }
  return nullptr;
}

}  // namespace rtrs::mock_hca
