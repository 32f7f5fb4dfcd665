// What the kernel knows of how a peer acknowledges. <linux/tcp.h> has all of tcp_info, and cannot be included
// together with <netinet/tcp.h>.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

#include "backends/tcp/tcp_sockets.hpp"

namespace rtrs::tcp {

Transport::Delivery Sockets::delivery(SocketId socket) const noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  // A kernel before 4.1 does not count what is acknowledged.
  if (size < offsetof(tcp_info, tcpi_bytes_received)) return {};
  return {.known = true,
          .pending = info.tcpi_unacked != 0,
          .attempts = info.tcpi_retransmits,
          .packet_bytes = info.tcpi_pmtu,
          .acknowledged = info.tcpi_bytes_acked};
}

}  // namespace rtrs::tcp
