#include "backends/libfabric/ofi_fabric.hpp"

#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <utility>

#include "backends/libfabric/ofi_status.hpp"
#include "core/base/assert.hpp"

namespace rtrs::ofi {

Result<std::unique_ptr<OfiFabric>> open_ofi_fabric(const OfiOptions& options) {
  if (const std::string& failure = library().failure; !failure.empty()) {
    if (options.log) options.log(LogLevel::error, failure);
    return tl::unexpected(Errc::not_supported);
  }
  OfiOptions own = options;
  if (own.log) {
    // Adds a mutex, because the listener thread logs too.
    own.log = [log = options.log, mutex = std::make_shared<std::mutex>()](LogLevel level,
                                                                          const std::string& text) {
      const std::lock_guard lock(*mutex);
      log(level, text);
    };
  }
  auto fabric = std::make_unique<FabricImpl>(std::move(own));
  if (const Errc error = fabric->open(); error != Errc::ok) return tl::unexpected(error);
  return fabric;
}

FabricImpl::FabricImpl(OfiOptions options) : options_(std::move(options)) {
  if (!options_.host_names) destinations_.disable_lookups();
}

Errc FabricImpl::open() {
  Result<std::unique_ptr<Device>> device = Device::open(options_);
  if (!device) return device.error();
  device_ = std::move(*device);
  KeySequence::Secret secret{};
  if (::getrandom(secret.data(), sizeof secret, 0) != static_cast<ssize_t>(sizeof secret)) {
    log(LogLevel::error, "getting random numbers from the kernel failed");
    return Errc::fabric_error;
  }
  memory_ = std::make_unique<Memory>(*device_, secret, regions_);
  if (const Errc error = memory_->expose_empty_range(); error != Errc::ok) return error;
  fi_eq_attr attributes{};
  attributes.wait_obj = FI_WAIT_FD;
  fid_eq* events = nullptr;
  int result = fi_eq_open(device_->fabric.get(), &attributes, &events, nullptr);
  if (result != 0) return to_errc(-result);
  events_.reset(events);
  result = fi_control(&events->fid, FI_GETWAIT, &events_fd_);
  if (result != 0) return to_errc(-result);
  if (const Errc error = open_listener(); error != Errc::ok) return error;
  epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0 || !watch(events_fd_, &events_) || !watch(listener_->wait_fd(), &listener_)) {
    return Errc::no_memory;
  }
  return Errc::ok;
}

bool FabricImpl::watch(int fd, void* tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = tag;
  return ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) == 0;
}

FabricImpl::~FabricImpl() {
  // Destroy connections before the event queue and the memory that they use.
  for (auto& [key, connection] : connections_) connection->close();
  for (auto& [number, request] : requests_) refuse(request, {});
  connections_.clear();
  free_at_next_poll_.clear();
  requests_.clear();
  listener_.reset();
  adopter_.reset();
  if (epoll_fd_ >= 0) ::close(epoll_fd_);
}

OfiStats FabricImpl::stats() const noexcept {
  OfiStats result = stats_;
  result.reaped_handshakes = listener_->reaped();
  return result;
}

Connection& FabricImpl::create(ConKey key, const ConnectionParams& params, bool is_client) {
  const FabricParts around{options_, *device_, *memory_, stats_};
  return connections_.add(std::make_unique<Connection>(around, key, params, is_client));
}

int FabricImpl::open_endpoint(Connection& connection, fi_info& info) {
  if (const int result = connection.open(info, events_.get()); result != 0) return result;
  if (!watch(connection.wait_fd(), &connection)) return -ENOMEM;
  by_endpoint_[&connection.endpoint()->fid] = &connection;
  ++endpoints_open_;
  // Reserves room, so that the lists never grow while IO runs.
  for (auto* list : {&ready_, &unarmed_, &with_delivered_}) list->reserve(endpoints_open_);
  mark_unarmed(connection);
  mark_ready(connection);
  return 0;
}

void FabricImpl::invalidate(ConKey key, RemoteKeyId remote_key, std::uint64_t cookie) {
  const bool ok = memory_->invalidate(remote_key);
  if (find(key) != nullptr) report(event::ChunkInvalidated{key, cookie, ok});
}

std::string FabricImpl::describe(ConKey key) const {
  const Connection* connection = find(key);
  return connection == nullptr ? "? > ?" : connection->description();
}

DevicePort FabricImpl::device_of(ConKey) const {
  return {device_->name.substr(device_->name.find('/') + 1), 1};
}

std::string FabricImpl::describe_request(std::uint32_t request) const {
  const auto found = requests_.find(request);
  return found == requests_.end() ? ""
                                  : to_text(found->second.client) + " > " + to_text(found->second.server);
}

void FabricImpl::post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept {
  Connection* connection = find(key);
  if (connection == nullptr || connection->stage() == Connection::Stage::lost) return;
  for (unsigned posted = 0; posted < count; ++posted) {
    if (!connection->post_receive(bytes_each)) {
      report_lost(*connection, Reason::post_failed);
      return;
    }
  }
  mark_ready(*connection);
}

std::size_t FabricImpl::post(std::span<const WorkRequest> work) noexcept {
  std::size_t accepted = 0;
  for (const WorkRequest& request : work) {
    Connection* connection = find(request.key);
    if (connection == nullptr || connection->stage() == Connection::Stage::lost) {
      ++accepted;
      continue;
    }
    if (connection->stage() == Connection::Stage::pending) break;
    const Connection::Posted posted = connection->post(request);
    if (posted == Connection::Posted::try_later) break;
    if (posted == Connection::Posted::failed) report_lost(*connection, Reason::post_failed);
    ++accepted;
    connection->quiet_reads = 0;
    // Bytes that did not fit into the socket are sent only while the queue is read.
    mark_ready(*connection);
  }
  return accepted;
}

}  // namespace rtrs::ofi
