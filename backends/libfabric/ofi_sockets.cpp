#include "backends/libfabric/ofi_sockets.hpp"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace rtrs::ofi {
namespace {

struct DirectoryCloser {
  void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

// Returns the inode of a socket, 0 for other descriptors. Reads the link text "socket:[1234]" (proc(5)) by
// name, because another thread may close the descriptor. Does not call stat(), which blocks if the descriptor
// is a file of a file system that hangs.
ino_t socket_inode(DIR* directory, const char* name) {
  constexpr std::string_view kSocket = "socket:[";
  std::array<char, 64> link{};
  const ssize_t size = ::readlinkat(::dirfd(directory), name, link.data(), link.size());
  const std::string_view text(link.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  if (text.substr(0, kSocket.size()) != kSocket) return 0;
  ino_t inode = 0;
  std::from_chars(text.data() + kSocket.size(), text.data() + text.size(), inode);
  return inode;
}

// Returns false if the sockets could not be listed.
template <class Visit>
bool for_each_internet_socket(Visit visit) {
  const std::unique_ptr<DIR, DirectoryCloser> directory(::opendir("/proc/self/fd"));
  if (directory == nullptr) return false;
  while (const dirent* entry = ::readdir(directory.get())) {
    if (entry->d_name[0] == '.') continue;
    AcceptedSocket socket;
    socket.fd = std::atoi(entry->d_name);
    socket.inode = socket_inode(directory.get(), entry->d_name);
    socket.local.length = sizeof socket.local.storage;
    if (socket.inode == 0 || ::getsockname(socket.fd, socket.local.get(), &socket.local.length) != 0)
      continue;
    socket.peer.length = sizeof socket.peer.storage;
    if (::getpeername(socket.fd, socket.peer.get(), &socket.peer.length) != 0) socket.peer.length = 0;
    // The results belong to one socket only if the descriptor was not replaced between the calls.
    if (socket_inode(directory.get(), entry->d_name) != socket.inode) continue;
    if (socket.local.family() == AF_INET || socket.local.family() == AF_INET6) visit(socket);
  }
  return true;
}

bool has_peer(const AcceptedSocket& socket) {
  return socket.peer.length != 0;
}

bool set_user_timeout(int fd, unsigned milliseconds) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds) == 0;
}

}  // namespace

std::optional<std::vector<AcceptedSocket>> accepted_sockets(const std::vector<std::uint16_t>& ports) {
  std::vector<AcceptedSocket> found;
  const bool listed = for_each_internet_socket([&](const AcceptedSocket& socket) {
    const bool ours = std::find(ports.begin(), ports.end(), socket.local.port()) != ports.end();
    if (ours && has_peer(socket)) found.push_back(socket);
  });
  if (!listed) return std::nullopt;
  return found;
}

bool limit_blocking_reads(const net::SocketAddress& name, unsigned milliseconds) {
  bool limited = false;
  const timeval limit{.tv_sec = milliseconds / 1000,
                      .tv_usec = static_cast<long>(milliseconds % 1000) * 1000};
  for_each_internet_socket([&](const AcceptedSocket& socket) {
    if (!(socket.local == name) || has_peer(socket)) return;
    // Accepted sockets inherit the option from the listening socket.
    limited |= ::setsockopt(socket.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0;
  });
  return limited;
}

bool limit_undelivered(const net::SocketAddress& name, unsigned milliseconds) {
  bool limited = false;
  for_each_internet_socket([&](const AcceptedSocket& socket) {
    if (socket.local == name && !has_peer(socket)) limited |= set_user_timeout(socket.fd, milliseconds);
  });
  return limited;
}

bool limit_undelivered(const net::SocketAddress& local, const net::SocketAddress& peer,
                       unsigned milliseconds) {
  bool limited = false;
  for_each_internet_socket([&](const AcceptedSocket& socket) {
    if (has_peer(socket) && socket.local == local && socket.peer == peer)
      limited |= set_user_timeout(socket.fd, milliseconds);
  });
  return limited;
}

bool has_unread_bytes(int fd) noexcept {
  int count = 0;
  return ::ioctl(fd, FIONREAD, &count) == 0 && count > 0;
}

}  // namespace rtrs::ofi
