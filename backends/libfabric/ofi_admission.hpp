// Source of connect requests. Has two implementations: the provider listens (ofi_listener.hpp), or this
// backend listens on sockets (tcp_listener.hpp) so that one client cannot block others.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backends/libfabric/ofi_handles.hpp"
#include "backends/platform/address/socket_address.hpp"
#include "backends/platform/address/unique_fd.hpp"
#include "core/proto/errc.hpp"

namespace rtrs::ofi {

struct ConnectRequest {
  // Argument for fi_endpoint() and fi_reject(). Set if the provider has read the request.
  InfoHandle info;
  fid_pep* passive = nullptr;  // owned by its listener
  // The client's socket and the connect request that was read from it, header included. Set if this backend
  // accepted the socket.
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

  // Called once, before listen(). Returns not_supported if this implementation does not work here.
  virtual Errc start() = 0;
  virtual Errc listen(const net::SocketAddress&) = 0;
  // Port of the last successful listen().
  virtual std::uint16_t port() const noexcept = 0;
  // Descriptor that is readable while requests are waiting.
  virtual int wait_fd() const noexcept = 0;
  virtual std::vector<ConnectRequest> take() = 0;
  // Number of clients closed because they sent no connect request.
  virtual std::uint64_t reaped() const noexcept = 0;
};

}  // namespace rtrs::ofi
