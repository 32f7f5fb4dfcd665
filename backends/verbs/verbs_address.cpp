#include "backends/verbs/verbs_address.hpp"

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cstring>

namespace rtrs::verbs {
namespace {

constexpr std::string_view kGidPrefix = "gid:";
constexpr std::uint16_t kDefaultPartition = 0xffff;

// A GID has the form of an IPv6 address, and the rest of the backend treats it as one.
net::SocketAddress plain(const sockaddr* address) {
  if (address == nullptr) return {};
  if (!is_gid(address)) {
    return net::from_raw(address,
                         address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  }
  sockaddr_ib gid;
  std::memcpy(&gid, address, sizeof gid);
  sockaddr_in6 result{};
  result.sin6_family = AF_INET6;
  std::memcpy(&result.sin6_addr, gid.sib_addr.sib_raw, sizeof result.sin6_addr);
  result.sin6_port = htons(static_cast<std::uint16_t>(be64toh(gid.sib_sid) & RDMA_IB_IP_PORT_MASK));
  return net::from_raw(&result, sizeof result);
}

bool starts_as_gid(std::string_view text) {
  return text.substr(0, kGidPrefix.size()) == kGidPrefix;
}

Result<net::SocketAddress> parse_gid(std::string_view text, std::uint16_t port) {
  const std::string gid(text.substr(kGidPrefix.size()));
  sockaddr_ib address{};
  if (inet_pton(AF_INET6, gid.c_str(), address.sib_addr.sib_raw) != 1)
    return tl::unexpected(Errc::bad_address);
  address.sib_family = AF_IB;
  address.sib_pkey = htons(kDefaultPartition);
  address.sib_sid = htobe64(RDMA_IB_PS_IB | port);
  address.sib_sid_mask = ~std::uint64_t{0};
  return net::from_raw(&address, sizeof address);
}

}  // namespace

Result<net::SocketAddress> parse_address(std::string_view text, std::uint16_t port) {
  return starts_as_gid(text) ? parse_gid(text, port) : net::parse_address(text, port);
}

std::vector<net::SocketAddress> resolve_addresses(std::string_view text, std::uint16_t port) {
  if (!starts_as_gid(text)) return net::resolve(text, port);
  const Result<net::SocketAddress> gid = parse_gid(text, port);
  return gid ? std::vector{*gid} : std::vector<net::SocketAddress>{};
}

bool is_gid(const sockaddr* address) noexcept {
  return address->sa_family == AF_IB;
}

bool is_wildcard(const sockaddr* address) noexcept {
  if (address->sa_family == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == INADDR_ANY;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::string to_text(const sockaddr* address) {
  if (address == nullptr || address->sa_family == AF_UNSPEC) return "?";
  return (is_gid(address) ? "gid:" : "") + net::to_text(plain(address));
}

std::uint32_t host_digest(const sockaddr* client) {
  return net::host_digest(plain(client));
}

std::uint32_t address_pair_digest(const sockaddr* client, const sockaddr* server) {
  return net::address_pair_digest(plain(client), plain(server));
}

}  // namespace rtrs::verbs
