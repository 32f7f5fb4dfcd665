#include "backends/libfabric/ofi_adopt.hpp"

#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "backends/libfabric/listener_parts.hpp"
#include "backends/libfabric/ofi_status.hpp"

namespace rtrs::ofi {
namespace {

constexpr unsigned kRounds = 64;
constexpr int kRoundMs = 50;

net::SocketAddress loopback() {
  net::SocketAddress address;
  auto* ip = reinterpret_cast<sockaddr_in*>(address.get());
  ip->sin_family = AF_INET;
  ip->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.length = sizeof(sockaddr_in);
  return address;
}

using NameOf = int (*)(int, sockaddr*, socklen_t*);  // getsockname or getpeername

bool has_name(int fd, NameOf name_of, const net::SocketAddress& name) {
  net::SocketAddress found;
  found.length = sizeof found.storage;
  return name_of(fd, found.get(), &found.length) == 0 && found.family() == AF_INET && found == name;
}

// Returns the provider's socket with this address, or -1. Descriptors close to `near` are checked first,
// because the provider opened the socket at about the same time.
int find_descriptor(NameOf name_of, const net::SocketAddress& name, int near) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const int end = static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1U << 20));
  for (int fd = std::max(near - 16, 0); fd < std::min(end, near + 64); ++fd)
    if (fd != near && has_name(fd, name_of, name)) return fd;
  for (int fd = 0; fd < end; ++fd)
    if (fd != near && has_name(fd, name_of, name)) return fd;
  return -1;
}

// Prevents other programs on this host from connecting to `listener`: drops packets from all ports except the
// port of `peer`. The first field of a TCP header is the source port.
bool accept_only_from(const net::SocketAddress& peer, int listener) {
  std::array<sock_filter, 4> code{{
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, peer.port(), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0x40000),
      BPF_STMT(BPF_RET | BPF_K, 0),
  }};
  const sock_fprog program{.len = code.size(), .filter = code.data()};
  return ::setsockopt(listener, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

// Opens a socket with a loopback port; stores its address in `name`.
net::UniqueFd open_loopback_socket(net::SocketAddress& name) {
  net::UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const net::SocketAddress any_port = loopback();
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  name.length = sizeof name.storage;
  if (socket && (::bind(socket.get(), any_port.get(), any_port.length) != 0 ||
                 ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
                 ::getsockname(socket.get(), name.get(), &name.length) != 0)) {
    socket.reset();
  }
  return socket;
}

// Connects the socket. If a signal interrupts connect(), waits until the attempt, which continues, has ended.
// Returns 0 or an errno.
int connect_through(int socket, const net::SocketAddress& to) {
  if (::connect(socket, to.get(), to.length) == 0) return 0;
  if (errno != EINTR) return errno;
  pollfd waiting{.fd = socket, .events = POLLOUT, .revents = 0};
  for (unsigned round = 0; ::poll(&waiting, 1, kRoundMs) <= 0; ++round)
    if (round == kRounds) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

}  // namespace

Errc Adopter::open() {
  // Later versions have a different provider with this name.
  const std::uint32_t version = library().version();
  if (FI_MAJOR(version) != 1 || FI_MINOR(version) > 17) return Errc::not_supported;
  fi_eq_attr attributes{};
  attributes.wait_obj = FI_WAIT_FD;
  fid_eq* events = nullptr;
  if (const int e = fi_eq_open(device_.listen_fabric.get(), &attributes, &events, nullptr); e != 0)
    return to_errc(-e);
  events_.reset(events);
  if (const int e = fi_control(&events->fid, FI_GETWAIT, &events_fd_); e != 0) return to_errc(-e);
  const InfoHandle info(library().dupinfo(device_.info.get()));
  if (info == nullptr) return Errc::no_memory;
  std::free(std::exchange(info->src_addr, nullptr));
  info->src_addrlen = 0;
  fid_pep* passive = nullptr;
  if (const int e = fi_passive_ep(device_.listen_fabric.get(), info.get(), &passive, nullptr); e != 0)
    return to_errc(-e);
  rejecting_.reset(passive);
  // Test exchange: fails on a host without a working loopback.
  Exchange exchange;
  return offer("", exchange) == 0 ? Errc::ok : Errc::not_supported;
}

int Adopter::offer(const std::string& message, Exchange& exchange) {
  const InfoHandle info(library().dupinfo(device_.info.get()));
  if (info == nullptr || !set_address(info->src_addr, info->src_addrlen, loopback())) return -FI_ENOMEM;
  info->addr_format = FI_SOCKADDR_IN;
  fid_pep* passive = nullptr;
  int result = fi_passive_ep(device_.listen_fabric.get(), info.get(), &passive, nullptr);
  if (result != 0) return result;
  exchange.listener.reset(passive);
  net::SocketAddress name;
  std::size_t length = sizeof name.storage;
  result = fi_pep_bind(passive, &events_->fid, 0);
  if (result == 0) result = fi_getname(&passive->fid, &name.storage, &length);
  if (result != 0) return result;
  name.length = static_cast<socklen_t>(length);
  exchange.ours = open_loopback_socket(exchange.name);
  if (!exchange.ours) return -errno;
  const int listener = find_descriptor(&::getsockname, name, exchange.ours.get());
  if (listener < 0 || !accept_only_from(exchange.name, listener)) return -FI_EOPNOTSUPP;
  if (result = fi_listen(passive); result != 0) return result;
  if (const int error = connect_through(exchange.ours.get(), name); error != 0) return -error;
  const ssize_t sent = ::send(exchange.ours.get(), message.data(), message.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(message.size()) ? 0 : -FI_EIO;
}

int Adopter::receive(InfoHandle& info) {
  alignas(fi_eq_cm_entry) std::array<std::byte, sizeof(fi_eq_cm_entry) + 1024> space;
  for (unsigned round = 0; round < kRounds; ++round) {
    std::uint32_t event = 0;
    const ssize_t size = fi_eq_read(events_.get(), &event, space.data(), space.size(), 0);
    if (size == -FI_EAGAIN) {
      pollfd waiting{.fd = events_fd_, .events = POLLIN, .revents = 0};
      if (::poll(&waiting, 1, kRoundMs) == 0) return -FI_ETIMEDOUT;
      continue;
    }
    if (size == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      fi_eq_readerr(events_.get(), &error, 0);
      return error.err == 0 ? -FI_EIO : -error.err;
    }
    if (size == -FI_EINTR) continue;
    if (size < 0) return static_cast<int>(size);
    if (event != FI_CONNREQ) continue;
    info.reset(reinterpret_cast<const fi_eq_cm_entry*>(space.data())->info);
    return 0;
  }
  // If accepting fails repeatedly, the provider has no descriptor left.
  return -FI_EMFILE;
}

// After a failure the provider may still hold resources of the listener. Closing our connection makes the
// provider free them.
void Adopter::give_up(Exchange& exchange) {
  exchange.ours.reset();
  InfoHandle late;
  if (receive(late) == 0) fi_reject(rejecting_.get(), late->handle, nullptr, 0);
}

// Replaces the addresses in the request: the provider reports the addresses of the loopback connection, which
// the client's socket has replaced.
bool Adopter::name_request(ConnectRequest& request) const {
  fi_info& info = *request.info;
  info.addr_format = request.client.family() == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
  return set_address(info.src_addr, info.src_addrlen, request.server) &&
         set_address(info.dest_addr, info.dest_addrlen, request.client);
}

int Adopter::adopt(ConnectRequest& request) {
  Exchange exchange;
  InfoHandle info;
  int result = offer(request.message, exchange);
  if (result != 0) return result;
  if (result = receive(info); result != 0) {
    give_up(exchange);
    return result;
  }
  request.passive = rejecting_.get();
  const int theirs = find_descriptor(&::getpeername, exchange.name, exchange.ours.get());
  if (theirs < 0 || ::dup3(request.socket.get(), theirs, O_CLOEXEC) < 0) {
    const int error = theirs < 0 ? FI_EOPNOTSUPP : errno;
    fi_reject(request.passive, info->handle, nullptr, 0);
    return -error;
  }
  request.info = std::move(info);
  return name_request(request) ? 0 : -FI_ENOMEM;
}

}  // namespace rtrs::ofi
