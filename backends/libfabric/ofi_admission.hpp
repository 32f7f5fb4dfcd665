// How connect requests get into the fabric. Two ways: a provider that listens itself (ofi_listener.hpp), and
// sockets that this backend listens on (tcp_listener.hpp), which a client cannot hold up.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backends/address/socket_address.hpp"
#include "backends/address/unique_fd.hpp"
#include "backends/libfabric/ofi_handles.hpp"
#include "core/proto/errc.hpp"

namespace rtrs::ofi {

struct ConnectRequest {
  // Of a provider that read the request itself: what fi_endpoint() and fi_reject() take.
  InfoHandle info;
  fid_pep* passive = nullptr;  // owned by its listener
  // Of a socket that we accepted: the socket, and the request as it came, header included.
  net::UniqueFd socket;
  std::string message;

  net::SocketAddress client;
  net::SocketAddress server;
  std::string private_data;
};

class Admission {
 public:
  Admission() = default;
  virtual ~Admission() = default;
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;

  // Called once, before listen(). not_supported: this way does not work here.
  virtual Errc start() = 0;
  virtual Errc listen(const net::SocketAddress&) = 0;
  // Of the last successful listen().
  virtual std::uint16_t port() const noexcept = 0;
  // Readable while requests wait.
  virtual int wait_fd() const noexcept = 0;
  virtual std::vector<ConnectRequest> take() = 0;
  // Clients closed because they sent no connect request.
  virtual std::uint64_t reaped() const noexcept = 0;
};

}  // namespace rtrs::ofi
