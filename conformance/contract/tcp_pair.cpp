#include "conformance/contract/tcp_pair.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rtrs::conformance {

std::unique_ptr<TcpPair> TcpPair::open(const char* host, const tcp::TcpOptions& options,
                                       const tcp::TlsOptions& tls) {
  auto client = tcp::open_tcp_fabric(options, tls);
  auto server = tcp::open_tcp_fabric(options, tls);
  if (!client || !server) return nullptr;
  auto pair = std::make_unique<TcpPair>();
  pair->host_ = host;
  pair->client_ = std::move(*client);
  pair->server_ = std::move(*server);
  return pair;
}

// Returns a port that was free a moment ago and that the kernel does not assign again soon.
PathAddress TcpPair::unused_address() {
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  socklen_t length = sizeof address;
  ::bind(probe, reinterpret_cast<sockaddr*>(&address), length);
  ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(probe);
  return {.source = {}, .destination = host_, .port = ntohs(address.sin6_port)};
}

bool TcpPair::idle() {
  const bool client_sleeps = client_->try_wait();
  const bool server_sleeps = server_ == nullptr || server_->try_wait();
  if (!client_sleeps || !server_sleeps) return true;
  std::array<pollfd, 2> fds{};
  fds[0] = {.fd = client_->wait_fd(), .events = POLLIN, .revents = 0};
  fds[1] = {.fd = server_ == nullptr ? -1 : server_->wait_fd(), .events = POLLIN, .revents = 0};
  return ::poll(fds.data(), fds.size(), 25) > 0;
}

}  // namespace rtrs::conformance
