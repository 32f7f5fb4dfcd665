#include "backends/tcp/tcp_sockets.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <new>
#include <utility>

#include "core/tcp/tcp_watched.hpp"

namespace rtrs::tcp {
namespace {

constexpr int kBacklog = 4096;
constexpr std::size_t kMaxPieces = 1024;  // maximum per system call (UIO_MAXIOV)

net::UniqueFd open_spare() noexcept {
  return net::UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

std::size_t soft_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1U << 20U;
  return limit.rlim_cur;
}

// Number of the last descriptor for clients. The higher numbers are left for the rest of the process; the
// kernel always assigns the lowest free number.
std::size_t descriptor_limit() noexcept {
  const std::size_t limit = soft_limit();
  return limit - std::min<std::size_t>(limit / 2, std::clamp<std::size_t>(limit / 16, 16, 64));
}

net::SocketAddress name_of(int socket, bool peer) noexcept {
  net::SocketAddress name;
  name.length = sizeof name.storage;
  const int result = peer ? ::getpeername(socket, name.get(), &name.length)
                          : ::getsockname(socket, name.get(), &name.length);
  if (result != 0) name.length = 0;
  return name;
}

net::UniqueFd new_socket(int family) noexcept {
  return net::UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int error_of(const net::Destinations::Failure& failure) noexcept {
  if (failure.silent) return kNoNameServiceAnswer;
  return failure.reason == Reason::source_unavailable ? kNotOurs : kUnresolved;
}

Transport::Moved moved(ssize_t result) noexcept {
  if (result >= 0) return {.bytes = static_cast<std::size_t>(result), .error = 0};
  return {.bytes = 0, .error = errno == EWOULDBLOCK || errno == EINTR ? EAGAIN : errno};
}

}  // namespace

int Sockets::open() noexcept {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  signal_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  spare_ = open_spare();
  ready_.reserve(named_.size());
  if (!epoll_ || !timer_ || !signal_ || !spare_) return errno;
  return watch_descriptor(timer_.get(), &timer_) && watch_descriptor(signal_.get(), &signal_) ? 0 : errno;
}

bool Sockets::watch_descriptor(int descriptor, void* mark) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = mark;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
}

Nanos Sockets::now() const noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return seconds(static_cast<std::uint64_t>(now.tv_sec)) + static_cast<std::uint64_t>(now.tv_nsec);
}

std::span<std::byte> Sockets::map(std::size_t bytes) noexcept {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  return {static_cast<std::byte*>(memory), bytes};
}

void Sockets::unmap(std::span<std::byte> memory) noexcept {
  ::munmap(memory.data(), memory.size());
}

int Sockets::bind_and_listen(int socket, const net::SocketAddress& address,
                             unsigned undelivered_ms) const noexcept {
  const int on = 1;
  // Accepted sockets inherit these options.
  const bool good =
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
      ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &undelivered_ms, sizeof undelivered_ms) == 0 &&
      ::bind(socket, address.get(), address.length) == 0 && ::listen(socket, kBacklog) == 0;
  return good ? 0 : errno;
}

Transport::Opened Sockets::listen(const PathAddress& local, unsigned undelivered_ms) {
  Opened result;
  const std::string& text = local.source.empty() ? local.destination : local.source;
  net::SocketAddress address = net::any_address(local.port);
  if (!text.empty()) {
    const std::vector<net::SocketAddress> found = destinations_.resolve(text, local.port);
    result.name = text;
    result.error = kUnresolved;
    if (found.empty()) return result;
    address = found.front();
  }
  result.name = to_text(address);
  net::UniqueFd socket = new_socket(address.family());
  result.error = socket ? bind_and_listen(socket.get(), address, undelivered_ms) : errno;
  if (result.error != 0) return result;
  const net::SocketAddress name = name_of(socket.get(), false);
  result.name = to_text(name);
  result.port = name.port();
  result.socket = socket.release();
  return result;
}

net::UniqueFd Sockets::begin(const net::Destinations::Route& route, unsigned undelivered_ms,
                             Opened& result) const {
  result.name = to_text(route.to);
  net::UniqueFd socket = new_socket(route.to.family());
  const int on = 1;
  if (!socket || ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &undelivered_ms, sizeof undelivered_ms) != 0)
    result.error = errno;
  else if (route.from.length != 0 && ::bind(socket.get(), route.from.get(), route.from.length) != 0)
    result.error = kNotOurs;
  else if (::connect(socket.get(), route.to.get(), route.to.length) != 0 && errno != EINPROGRESS)
    result.error = errno;
  return socket;
}

Transport::Opened Sockets::connect(ConKey key, const PathAddress& path, unsigned address,
                                   unsigned undelivered_ms) {
  Opened result;
  if (tls_.context != nullptr) renew_tls();
  if (tls_.context != nullptr && !tls::can_connect(*tls_.context)) {
    result.error = kRefused;
    result.why =
        "there are several keys, and none is chosen (tls-identity): " + tls::identities(*tls_.context);
    return result;
  }
  if (destinations_.ask(key, path, address)) {
    result = wait_for_names(key, path, undelivered_ms);
  } else if (const auto route = destinations_.route(key, path, address)) {
    net::UniqueFd socket = begin(*route, undelivered_ms, result);
    if (result.error == 0) result.socket = socket.release();
  } else {
    result.error = error_of(route.error());
    // A numeric address failed, for example because its interface does not exist.
    if (result.error == kUnresolved) result.why = route.error().text;
  }
  if (result.socket == kNoSocket || tls_.context == nullptr ||
      seal(result.socket, tls::Side::client, net::host_of(path.destination)))
    return result;
  close(std::exchange(result.socket, kNoSocket));
  result.error = ENOMEM;
  return result;
}

Transport::Opened Sockets::wait_for_names(ConKey key, const PathAddress& path, unsigned undelivered_ms) {
  Opened result;
  result.name = path.destination + " port " + std::to_string(path.port);
  net::UniqueFd placeholder(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!placeholder)
    result.error = EMFILE;
  else if (!names_watched_ && !watch_descriptor(destinations_.wait_fd(), &destinations_))
    result.error = ENOMEM;
  if (result.error != 0) {
    destinations_.forget(key);
    return result;
  }
  names_watched_ = true;
  unresolved_[placeholder.get()] = UnresolvedConnection{key, undelivered_ms};
  result.socket = placeholder.release();
  return result;
}

void Sockets::connect_named() noexcept try {
  for (const net::Destinations::Ready& ready : destinations_.take()) {
    const auto found = std::find_if(unresolved_.begin(), unresolved_.end(), [&](const auto& entry) {
      return entry.second.key == ready.key && entry.second.error == 0;
    });
    if (found == unresolved_.end()) continue;
    connect_named(ready, found->first, found->second);
    if (found->second.error == 0) unresolved_.erase(found);
  }
} catch (const std::bad_alloc&) {
  // The remaining connections fail when their attempts time out.
}

void Sockets::connect_named(const net::Destinations::Ready& ready, SocketId id, UnresolvedConnection& one) {
  Opened result;
  net::UniqueFd socket;
  const auto route = destinations_.route(ready.key, ready.path, ready.address);
  if (route && one.one != nullptr) {
    // Reserves room for one more entry, because look() must not allocate when it adds up to 64 entries.
    ready_.reserve(ready_.size() + named_.size() + 1);
    const std::uint16_t choice = route->is_choice(ready.key) ? route->count : std::uint16_t{1};
    ready_.push_back({one.one, kFound, choice, ready.path.destination + " (" + to_text(route->to) + ")"});
  }
  if (route)
    socket = begin(*route, one.undelivered_ms, result);
  else
    result.error = error_of(route.error());
  one.error = result.error;
  if (one.error == 0 && ::dup3(socket.get(), id, O_CLOEXEC) < 0) one.error = errno;
  if (one.one != nullptr) watch_socket(id, one.interest, *one.one, EPOLL_CTL_ADD);
}

int Sockets::outcome(SocketId socket) noexcept {
  const auto unnamed = unresolved_.find(socket);
  if (unnamed != unresolved_.end()) return unnamed->second.error;
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

Transport::Client Sockets::accept(SocketId listener) {
  Client client;
  net::SocketAddress address;
  address.length = sizeof address.storage;
  net::UniqueFd socket(::accept4(listener, address.get(), &address.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  client.error = socket ? 0 : errno;
  if (!socket) return client;
  client.name = to_text(address);
  client.host = net::host_digest(address);
  client.last_place = static_cast<std::size_t>(socket.get()) >= descriptor_limit();
  client.socket = socket.release();
  return client;
}

Transport::Client Sockets::accept_and_drop(SocketId listener) {
  spare_.reset();
  Client client = accept(listener);
  if (client.socket != kNoSocket) ::close(std::exchange(client.socket, kNoSocket));
  spare_ = open_spare();
  return client;
}

std::size_t Sockets::descriptors() const noexcept {
  return soft_limit();
}

Transport::Ends Sockets::ends(SocketId socket) const {
  const net::SocketAddress own = name_of(socket, false);
  const net::SocketAddress peer = name_of(socket, true);
  Ends result;
  result.known = own.length != 0;
  result.own = to_text(own);
  result.peer = to_text(peer);
  if (own.length != 0 && peer.length != 0) result.address_pair = net::address_pair_digest(peer, own);
  return result;
}

Transport::Moved Sockets::receive(SocketId socket, iwarp::MutableBytes place,
                                  iwarp::MutableBytes behind) noexcept {
  if (SealedStream* const one = sealed(socket)) return receive_sealed(*one, behind);
  if (place.empty()) return moved(::recv(socket, behind.data(), behind.size(), MSG_DONTWAIT));
  std::array<iovec, 2> parts{};
  parts[0] = {.iov_base = place.data(), .iov_len = place.size()};
  parts[1] = {.iov_base = behind.data(), .iov_len = behind.size()};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return moved(::recvmsg(socket, &message, MSG_DONTWAIT));
}

Transport::Moved Sockets::send(SocketId socket, std::span<const iwarp::Bytes> pieces,
                               std::size_t skip) noexcept {
  if (SealedStream* const one = sealed(socket); one != nullptr && !one->writes_plain())
    return one->send(pieces, skip);
  std::array<iovec, kMaxPieces> parts;
  const std::size_t count = std::min(pieces.size(), parts.size());
  for (std::size_t i = 0; i < count; ++i) {
    const iwarp::Bytes piece = i == 0 ? pieces[i].subspan(skip) : pieces[i];
    parts[i] = {.iov_base = const_cast<std::byte*>(piece.data()), .iov_len = piece.size()};
  }
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = count;
  return moved(::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

bool Sockets::shut_down(SocketId socket) noexcept {
  if (SealedStream* const one = sealed(socket)) {
    one->announce_close();
    // From here on, received bytes are only discarded.
    sealed_[static_cast<std::size_t>(socket)].reset();
  }
  return ::shutdown(socket, SHUT_WR) == 0;
}

void Sockets::close(SocketId socket) noexcept {
  if (sealed(socket) != nullptr) sealed_[static_cast<std::size_t>(socket)].reset();
  if (const auto unnamed = unresolved_.find(socket); unnamed != unresolved_.end()) {
    destinations_.forget(unnamed->second.key);
    unresolved_.erase(unnamed);
  }
  ::close(socket);
}

bool Sockets::watch(SocketId socket, std::uint32_t interest, Watched& one) noexcept {
  const auto unnamed = unresolved_.find(socket);
  if (unnamed == unresolved_.end() || unnamed->second.error != 0)
    return watch_socket(socket, interest, one, one.watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
  unnamed->second.one = &one;
  unnamed->second.interest = interest;
  return true;
}

bool Sockets::watch_socket(SocketId socket, std::uint32_t interest, Watched& one, int how) noexcept {
  epoll_event event{};
  event.events = ((interest & kReadable) != 0 ? std::uint32_t{EPOLLIN} : 0U) |
                 ((interest & kWritable) != 0 ? std::uint32_t{EPOLLOUT} : 0U);
  event.data.ptr = &one;
  return ::epoll_ctl(epoll_.get(), how, socket, &event) == 0;
}

void Sockets::forget(SocketId socket) noexcept {
  const auto unnamed = unresolved_.find(socket);
  if (unnamed != unresolved_.end()) unnamed->second.one = nullptr;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
}

std::span<const Transport::Ready> Sockets::look() noexcept {
  const int count = ::epoll_wait(epoll_.get(), named_.data(), static_cast<int>(named_.size()), 0);
  ready_.clear();
  std::uint64_t times = 0;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = named_[static_cast<std::size_t>(i)];
    if (event.data.ptr == &signal_) {
      [[maybe_unused]] const ssize_t size = ::read(signal_.get(), &times, sizeof times);
    } else if (event.data.ptr == &timer_) {
      [[maybe_unused]] const ssize_t size = ::read(timer_.get(), &times, sizeof times);
      ready_.emplace_back();
    } else if (event.data.ptr == &destinations_) {
      connect_named();
    } else {
      const std::uint32_t events = event.events;
      Ready& one = ready_.emplace_back();
      one.one = static_cast<Watched*>(event.data.ptr);
      one.events = ((events & ~std::uint32_t{EPOLLOUT}) != 0 ? kReadable : 0U) |
                   ((events & EPOLLOUT) != 0 ? kWritable : 0U) |
                   ((events & (EPOLLERR | EPOLLHUP)) != 0 ? kBroken : 0U);
    }
  }
  return ready_;
}

void Sockets::arm(Nanos when) noexcept {
  itimerspec setting{};
  setting.it_value.tv_sec = static_cast<time_t>(when / seconds(1));
  // An all-zero time would disable the timer.
  setting.it_value.tv_nsec = static_cast<long>(when % seconds(1) == 0 ? 1 : when % seconds(1));
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

void Sockets::signal() noexcept {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t size = ::write(signal_.get(), &one, sizeof one);
}

}  // namespace rtrs::tcp
