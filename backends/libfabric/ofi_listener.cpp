#include "backends/libfabric/ofi_listener.hpp"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "backends/libfabric/listener_parts.hpp"
#include "backends/libfabric/ofi_status.hpp"

namespace rtrs::ofi {

Listener::Listener(const OfiOptions& options, const Device& device) : options_(options), device_(device) {}

Listener::~Listener() {
  if (thread_.joinable()) {
    raise_event(stop_fd_);
    thread_.join();
  }
  for (const ConnectRequest& request : requests_)
    fi_reject(request.passive, request.info->handle, nullptr, 0);
  passive_.clear();
  events_.reset();
  if (stop_fd_ >= 0) ::close(stop_fd_);
  if (arrived_fd_ >= 0) ::close(arrived_fd_);
}

Errc Listener::start() {
  stop_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  arrived_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (stop_fd_ < 0 || arrived_fd_ < 0) return Errc::no_memory;
  fi_eq_attr attributes{};
  attributes.wait_obj = FI_WAIT_FD;
  fid_eq* events = nullptr;
  if (const int result = fi_eq_open(device_.listen_fabric.get(), &attributes, &events, nullptr);
      result != 0) {
    return to_errc(-result);
  }
  events_.reset(events);
  return to_errc(-fi_control(&events->fid, FI_GETWAIT, &events_fd_));
}

Errc Listener::listen(const net::SocketAddress& address) {
  const InfoHandle info(library().dupinfo(device_.info.get()));
  if (info == nullptr || !set_address(info->src_addr, info->src_addrlen, address)) return Errc::no_memory;
  std::free(info->dest_addr);
  info->dest_addr = nullptr;
  info->dest_addrlen = 0;
  info->addr_format = address.family() == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
  fid_pep* passive = nullptr;
  int result = fi_passive_ep(device_.listen_fabric.get(), info.get(), &passive, nullptr);
  PassiveEndpoint owner(result == 0 ? passive : nullptr);
  net::SocketAddress name;
  std::size_t length = sizeof name.storage;
  if (result == 0) result = fi_pep_bind(passive, &events_->fid, 0);
  if (result == 0) result = fi_getname(&passive->fid, &name.storage, &length);
  if (result == 0) {
    name.length = static_cast<socklen_t>(length);
    limit_blocking_reads(name, options_.handshake_stall_ms);
    limit_undelivered(name, options_.undelivered_timeout_ms);
    result = fi_listen(passive);
  }
  if (result != 0) {
    say(options_, LogLevel::error, "cannot listen on " + to_text(address) + ": " + error_text(-result));
    return to_errc(-result);
  }
  {
    const std::lock_guard lock(mutex_);
    passive_.push_back(std::move(owner));
    ports_.push_back(name.port());
  }
  port_ = name.port();
  say(options_, LogLevel::info, "listening on " + to_text(name));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return Errc::ok;
}

std::vector<ConnectRequest> Listener::take() {
  std::uint64_t raised = 0;
  [[maybe_unused]] const ssize_t size = ::read(arrived_fd_, &raised, sizeof raised);
  const std::lock_guard lock(mutex_);
  return std::exchange(requests_, {});
}

void Listener::run() {
  std::uint64_t next_reap = 0;
  for (;;) {
    fid_t queue = &events_->fid;
    const bool can_sleep = fi_trywait(device_.listen_fabric.get(), &queue, 1) == 0;
    pollfd fds[2] = {{.fd = events_fd_, .events = POLLIN, .revents = 0},
                     {.fd = stop_fd_, .events = POLLIN, .revents = 0}};
    const int pause = static_cast<int>(std::clamp(options_.handshake_timeout_ms / 4, 1u, 1000u));
    ::poll(fds, 2, can_sleep ? pause : 0);
    if ((fds[1].revents & POLLIN) != 0) return;
    if (!can_sleep || (fds[0].revents & POLLIN) != 0) read_requests();
    // Also runs if no event was reported, because fi_trywait() accepts clients too.
    if (now_ms() >= next_reap) {
      reap();
      next_reap = now_ms() + static_cast<std::uint64_t>(pause);
    }
  }
}

void Listener::read_requests() {
  // Size of an event: its header plus the maximum data of a request.
  alignas(fi_eq_cm_entry) std::byte space[sizeof(fi_eq_cm_entry) + 1024];
  auto* entry = reinterpret_cast<fi_eq_cm_entry*>(space);
  for (;;) {
    std::uint32_t event = 0;
    const ssize_t size = fi_eq_read(events_.get(), &event, space, sizeof space, 0);
    if (size == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      fi_eq_readerr(events_.get(), &error, 0);
      say(options_, LogLevel::warning, "listener: " + error_text(error.err));
      continue;
    }
    if (size < 0) return;
    if (event == FI_CONNREQ) hand_over(*entry, static_cast<std::size_t>(size) - sizeof *entry);
  }
}

void Listener::hand_over(fi_eq_cm_entry& entry, std::size_t data_size) {
  ConnectRequest request;
  request.info.reset(entry.info);
  request.client = net::from_raw(entry.info->dest_addr, entry.info->dest_addrlen);
  request.server = net::from_raw(entry.info->src_addr, entry.info->src_addrlen);
  can_reap_ = can_reap_ && request.client.length != 0;
  request.private_data.assign(reinterpret_cast<const char*>(entry.data), data_size);
  // The request has the listening address, which may be a wildcard; the socket has the address that the
  // client used.
  const std::lock_guard lock(mutex_);
  const auto sockets = accepted_sockets(ports_);
  if (!sockets) unlisted_.push_back(request.client);
  for (const AcceptedSocket& socket : sockets.value_or(std::vector<AcceptedSocket>{})) {
    if (!(socket.peer == request.client)) continue;
    request.server = socket.local;
    handed_over_.insert(socket.inode);
    silent_since_.erase(socket.inode);
  }
  const auto owner = std::find_if(passive_.begin(), passive_.end(),
                                  [&](const PassiveEndpoint& p) { return &p->fid == entry.fid; });
  request.passive = owner == passive_.end() ? nullptr : owner->get();
  requests_.push_back(std::move(request));
  raise_event(arrived_fd_);
}

void Listener::reap() {
  if (!can_reap_) return;
  std::optional<std::vector<AcceptedSocket>> listed;
  {
    const std::lock_guard lock(mutex_);
    listed = accepted_sockets(ports_);
  }
  if (!listed) return;
  const std::vector<AcceptedSocket>& sockets = *listed;
  const std::uint64_t now = now_ms();
  std::set<ino_t> handed_over;
  std::map<ino_t, std::uint64_t> silent_since;
  std::vector<std::pair<std::uint64_t, const AcceptedSocket*>> silent;
  for (const AcceptedSocket& socket : sockets) {
    const bool unlisted = std::find(unlisted_.begin(), unlisted_.end(), socket.peer) != unlisted_.end();
    if (unlisted || handed_over_.count(socket.inode) != 0) {
      handed_over.insert(socket.inode);
      continue;
    }
    const auto known = silent_since_.find(socket.inode);
    const std::uint64_t since = known == silent_since_.end() ? now : known->second;
    silent_since.emplace(socket.inode, since);
    // A client whose request waits because others block this thread is not silent.
    if (!has_unread_bytes(socket.fd)) silent.emplace_back(since, &socket);
  }
  unlisted_.clear();
  handed_over_ = std::move(handed_over);
  silent_since_ = std::move(silent_since);
  std::sort(silent.begin(), silent.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::size_t excess = silent.size() - std::min<std::size_t>(silent.size(), options_.max_handshakes);
  for (const auto& [since, socket] : silent) {
    if (now - since < options_.handshake_timeout_ms && excess == 0) break;
    if (excess != 0) --excess;
    // The provider owns the socket and closes it when it reads the end of the stream. Only this thread turns
    // such a socket into a connection or closes it, so the descriptor cannot have been reused.
    reaped_.fetch_add(1, std::memory_order_relaxed);
    ::shutdown(socket->fd, SHUT_RDWR);
    silent_since_.erase(socket->inode);
    say(options_, LogLevel::warning, "closed " + to_text(socket->peer) + ": it sent no connect request");
  }
}

}  // namespace rtrs::ofi
