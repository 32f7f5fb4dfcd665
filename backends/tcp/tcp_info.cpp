// TCP_INFO of a socket. <linux/tcp.h> has the full tcp_info, and conflicts with <netinet/tcp.h>.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>

#include "backends/tcp/tcp_sockets.hpp"

namespace rtrs::tcp {

Transport::Delivery Sockets::delivery(SocketId socket) const noexcept {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  // A kernel before 4.9 lacks some of the counters.
  if (size < offsetof(tcp_info, tcpi_delivery_rate)) return {};
  // Packets that this host drops itself stay in tcpi_notsent_bytes, like data that does not fit the peer's
  // window. The window size tells the two apart.
  const bool has_window = size >= offsetof(tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd &&
                          info.tcpi_snd_wnd >= info.tcpi_snd_mss;
  return {.known = true,
          .pending = info.tcpi_unacked != 0 || (info.tcpi_notsent_bytes != 0 && has_window),
          // Retransmissions that this host drops itself are visible only in the backoff.
          .attempts = std::max(info.tcpi_retransmits, info.tcpi_backoff),
          .packets = info.tcpi_data_segs_out,
          .quiet = milliseconds(info.tcpi_last_data_sent),
          .packet_bytes = info.tcpi_pmtu,
          .acknowledged = info.tcpi_bytes_acked};
}

}  // namespace rtrs::tcp
