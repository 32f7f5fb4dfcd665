#include "conformance/contract/libfabric_pair.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace rtrs::conformance {

std::uint16_t unused_port() {
  const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  socklen_t length = sizeof address;
  ::bind(probe, reinterpret_cast<sockaddr*>(&address), length);
  ::getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(probe);
  return ntohs(address.sin6_port);
}

std::unique_ptr<LibfabricPair> LibfabricPair::open(const char* provider, const char* host,
                                                   ofi::OfiOptions options) {
  options.provider = provider;
  auto client = ofi::open_ofi_fabric(options);
  auto server = ofi::open_ofi_fabric(options);
  if (!client || !server) return nullptr;
  auto pair = std::make_unique<LibfabricPair>();
  pair->host_ = host;
  pair->client_ = std::move(*client);
  pair->server_ = std::move(*server);
  return pair;
}

bool LibfabricPair::idle() {
  const bool client_sleeps = client_->try_wait();
  const bool server_sleeps = server_ == nullptr || server_->try_wait();
  if (!client_sleeps || !server_sleeps) return true;
  std::array<pollfd, 2> fds{};
  fds[0] = {.fd = client_->wait_fd(), .events = POLLIN, .revents = 0};
  fds[1] = {.fd = server_ == nullptr ? -1 : server_->wait_fd(), .events = POLLIN, .revents = 0};
  return ::poll(fds.data(), fds.size(), 25) > 0;
}

}  // namespace rtrs::conformance
