#include "backends/libfabric/tcp_listener.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "backends/libfabric/listener_parts.hpp"
#include "backends/libfabric/ofi_device.hpp"
#include "backends/libfabric/ofi_status.hpp"
#include "core/base/counted.hpp"

namespace rtrs::ofi {
namespace {

constexpr int kBacklog = 4096;
constexpr unsigned kReportEveryMs = 1000;
// Pause before the next accept after an error that an immediate retry would hit again.
constexpr int kPauseMs = 50;

net::UniqueFd open_spare() {
  return net::UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// Returns at most a quarter of the descriptors, so that some are left for clients with a complete request.
std::size_t handshake_limit(const OfiOptions& options) {
  rlimit limit{};
  std::size_t share = options.max_handshakes;
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    share = std::min<std::size_t>(share, limit.rlim_cur / 4);
  return std::max<std::size_t>(share, 1);
}

bool is_shortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

// Listens on `address`; stores the bound address in `name`. Returns 0 or an errno. Accepted sockets inherit
// `undelivered_ms`: a connection whose bytes are not acknowledged for this time fails.
int open_listener(const net::SocketAddress& address, unsigned undelivered_ms, net::UniqueFd& socket,
                  net::SocketAddress& name) {
  socket.reset(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &undelivered_ms, sizeof undelivered_ms);
  name.length = sizeof name.storage;
  if (::bind(socket.get(), address.get(), address.length) != 0 || ::listen(socket.get(), kBacklog) != 0 ||
      ::getsockname(socket.get(), name.get(), &name.length) != 0) {
    return errno;
  }
  return 0;
}

}  // namespace

std::size_t cm::data_size(const char* header) noexcept {
  return std::size_t{static_cast<unsigned char>(header[2])} << 8 | static_cast<unsigned char>(header[3]);
}

void cm::send_reject(int socket, const void* data, std::size_t size) noexcept {
  std::array<char, kHeaderBytes + kMaxData> message{};
  size = std::min(size, kMaxData);
  message[0] = static_cast<char>(kVersion);
  message[1] = static_cast<char>(kReject);
  message[2] = static_cast<char>(size >> 8);
  message[3] = static_cast<char>(size);
  if (size != 0) std::memcpy(message.data() + kHeaderBytes, data, size);
  [[maybe_unused]] const ssize_t sent =
      ::send(socket, message.data(), kHeaderBytes + size, MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(socket, SHUT_RDWR);
}

TcpListener::TcpListener(const OfiOptions& options) : options_(options) {}

TcpListener::~TcpListener() {
  if (!thread_.joinable()) return;
  raise_event(stop_.get());
  thread_.join();
}

bool TcpListener::watch(int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

Errc TcpListener::start() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  stop_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  arrived_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  spare_ = open_spare();
  const bool opened = epoll_ && stop_ && arrived_ && spare_;
  return opened && watch(stop_.get()) ? Errc::ok : Errc::no_memory;
}

Errc TcpListener::listen(const net::SocketAddress& address) {
  net::UniqueFd socket;
  net::SocketAddress name;
  int error = open_listener(address, options_.undelivered_timeout_ms, socket, name);
  if (error == 0 && !watch(socket.get())) error = errno;
  if (error != 0) {
    say(options_, LogLevel::error, "cannot listen on " + to_text(address) + ": " + error_text(error));
    return to_errc(error);
  }
  port_ = name.port();
  {
    const std::lock_guard lock(mutex_);
    listening_.push_back(std::move(socket));
  }
  say(options_, LogLevel::info, "listening on " + to_text(name));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return Errc::ok;
}

std::vector<ConnectRequest> TcpListener::take() {
  std::uint64_t raised = 0;
  [[maybe_unused]] const ssize_t size = ::read(arrived_.get(), &raised, sizeof raised);
  const std::lock_guard lock(mutex_);
  return std::exchange(requests_, {});
}

void TcpListener::run() noexcept {
  for (;;) {
    try {
      turn();
      return;
    } catch (const std::bad_alloc&) {
      // Out of memory: only the client that was being served is lost.
      ::poll(nullptr, 0, kPauseMs);
    }
  }
}

void TcpListener::turn() {
  for (;;) {
    std::array<epoll_event, 64> events;
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), pause_ms(now_ms()));
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      if (fd == stop_.get()) return;
      handshakes_.count(fd) != 0 ? read(fd) : accept_clients(fd);
    }
    const std::uint64_t now = now_ms();
    close_overdue(now);
    report(now);
  }
}

void TcpListener::accept_clients(int listener) {
  {
    // Returns if the descriptor is not a listener: the event may belong to a handshake that was closed in the
    // same turn.
    const std::lock_guard lock(mutex_);
    if (std::none_of(listening_.begin(), listening_.end(),
                     [listener](const net::UniqueFd& one) { return one.get() == listener; }))
      return;
  }
  for (unsigned taken = 0; taken < 64; ++taken) {
    if (!accept_one(listener)) return;
  }
}

bool TcpListener::accept_one(int listener) {
  net::SocketAddress client;
  client.length = sizeof client.storage;
  net::UniqueFd socket(::accept4(listener, client.get(), &client.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket) {
    add(std::move(socket), client);
    return true;
  }
  if (errno == ECONNABORTED || errno == EINTR) return true;
  if (is_shortage(errno)) return make_room(listener);
  return false;
}

bool TcpListener::make_room(int listener) {
  if (!handshakes_.empty()) {
    close_oldest_of_busiest_host();
    return true;
  }
  // No descriptor is left. Closes the client's socket, so that the client learns of it. If the client stayed
  // in the kernel's queue, it would wait and keep this thread busy.
  spare_.reset();
  net::SocketAddress client;
  client.length = sizeof client.storage;
  net::UniqueFd socket(::accept4(listener, client.get(), &client.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool accepted = static_cast<bool>(socket);
  if (accepted) {
    ++dropped_clients_;
    last_closed_ = to_text(client);
    cm::send_reject(socket.get(), nullptr, 0);
  }
  socket.reset();
  spare_ = open_spare();
  if (!accepted) ::poll(nullptr, 0, kPauseMs);
  return accepted;
}

void TcpListener::add(net::UniqueFd socket, const net::SocketAddress& client) {
  while (handshakes_.size() >= handshake_limit(options_)) close_oldest_of_busiest_host();
  const int fd = socket.get();
  handshakes_.erase(fd);
  Handshake& one = handshakes_[fd];
  one.socket = std::move(socket);
  one.client = client;
  one.host = net::host_digest(client);
  one.began = now_ms();
  if (!watch(fd)) {
    handshakes_.erase(fd);
    return;
  }
  // Reads at once, because the request has often arrived already.
  read(fd);
}

TcpListener::Progress TcpListener::receive(Handshake& one, std::uint64_t now) noexcept {
  for (;;) {
    std::size_t needed = cm::kHeaderBytes;
    if (one.size >= cm::kHeaderBytes) {
      needed += cm::data_size(one.bytes.data());
      const bool is_request = static_cast<std::uint8_t>(one.bytes[0]) == cm::kVersion &&
                              static_cast<std::uint8_t>(one.bytes[1]) == cm::kRequest;
      if (!is_request || needed > one.bytes.size()) return Progress::foreign;
      if (one.size == needed) return Progress::complete;
    }
    const ssize_t got =
        ::recv(one.socket.get(), one.bytes.data() + one.size, needed - one.size, MSG_DONTWAIT);
    if (got <= 0) {
      const bool later = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
      return later ? Progress::waits : Progress::broken;
    }
    if (one.first_byte == 0) one.first_byte = now;
    one.size += static_cast<std::size_t>(got);
  }
}

void TcpListener::read(int fd) {
  const auto found = handshakes_.find(fd);
  switch (receive(found->second, now_ms())) {
    case Progress::waits:
      return;
    case Progress::complete:
      hand_over(found->second);
      break;
    case Progress::broken:
      break;
    case Progress::foreign:
      ++foreign_;
      last_foreign_ = to_text(found->second.client);
      break;
  }
  handshakes_.erase(found);
}

void TcpListener::hand_over(Handshake& one) {
  ConnectRequest request;
  request.client = one.client;
  request.server.length = sizeof request.server.storage;
  if (::getsockname(one.socket.get(), request.server.get(), &request.server.length) != 0) return;
  request.message.assign(one.bytes.data(), one.size);
  request.private_data = request.message.substr(cm::kHeaderBytes);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, one.socket.get(), nullptr);
  request.socket = std::move(one.socket);
  const std::lock_guard lock(mutex_);
  requests_.push_back(std::move(request));
  raise_event(arrived_.get());
}

std::uint64_t TcpListener::deadline_of(const Handshake& one) const noexcept {
  const std::uint64_t whole = one.began + options_.handshake_timeout_ms;
  return one.first_byte == 0 ? whole : std::min(whole, one.first_byte + options_.handshake_stall_ms);
}

void TcpListener::close_overdue(std::uint64_t now) {
  for (auto at = handshakes_.begin(); at != handshakes_.end();) {
    const auto one = at++;
    if (deadline_of(one->second) > now) continue;
    if (one->second.first_byte == 0) reaped_.fetch_add(1, std::memory_order_relaxed);
    ++closed_;
    last_closed_ = to_text(one->second.client);
    handshakes_.erase(one);
  }
}

void TcpListener::close_oldest_of_busiest_host() {
  std::map<std::uint32_t, unsigned> of_host;
  for (const auto& [fd, one] : handshakes_) ++of_host[one.host];
  auto worst = handshakes_.begin();
  for (auto at = handshakes_.begin(); at != handshakes_.end(); ++at) {
    const unsigned crowd = of_host[at->second.host];
    const unsigned most = of_host[worst->second.host];
    if (crowd > most || (crowd == most && at->second.began < worst->second.began)) worst = at;
  }
  if (worst->second.first_byte == 0) reaped_.fetch_add(1, std::memory_order_relaxed);
  ++closed_;
  last_closed_ = to_text(worst->second.client);
  handshakes_.erase(worst);
}

// Logs at most once per second, because otherwise any client that can connect could fill the log.
void TcpListener::report(std::uint64_t now) {
  if ((closed_ == 0 && dropped_clients_ == 0 && foreign_ == 0) || now < next_report_) return;
  if (foreign_ != 0)
    say(options_, LogLevel::warning,
        "closed " + counted(foreign_, "connection") +
            " that did not begin as libfabric requires; the last client was " + last_foreign_ +
            "; do both ends use the same fabric (fabric=libfabric)?");
  if (closed_ != 0)
    say(options_, LogLevel::warning,
        "closed " + counted(closed_, "connection") +
            " without a complete connect request; the last client was " + last_closed_);
  if (dropped_clients_ != 0)
    say(options_, LogLevel::error,
        "turned away " + counted(dropped_clients_, "client") + "; the last client was " + last_closed_ +
            ": no file descriptor is left; raise the limit (ulimit -n, LimitNOFILE=)");
  closed_ = dropped_clients_ = foreign_ = 0;
  next_report_ = now + kReportEveryMs;
}

int TcpListener::pause_ms(std::uint64_t now) const noexcept {
  std::uint64_t next = ~std::uint64_t{0};
  for (const auto& [fd, one] : handshakes_) next = std::min(next, deadline_of(one));
  if (closed_ != 0 || dropped_clients_ != 0 || foreign_ != 0) next = std::min(next, next_report_);
  if (next == ~std::uint64_t{0}) return -1;
  return next <= now ? 0 : static_cast<int>(std::min<std::uint64_t>(next - now, 60'000));
}

}  // namespace rtrs::ofi
