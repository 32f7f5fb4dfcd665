#include "backends/verbs/verbs_fabric.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/verbs/verbs_address.hpp"
#include "backends/verbs/verbs_status.hpp"
#include "core/base/assert.hpp"

namespace rtrs::verbs {
namespace {

std::string channel_advice(int error) {
  if (error == EACCES || error == EPERM)
    return "; this user needs read and write access to /dev/infiniband/rdma_cm";
  if (error == ENOENT || error == ENODEV) return "; its kernel module may be missing: modprobe rdma_ucm";
  return {};
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<VerbsFabric>> open_verbs_fabric(const VerbsOptions& options) {
  if (options.retry_count > 7 || options.min_rnr_timer > 31 || options.ack_timeout > 31)
    return tl::unexpected(Errc::invalid);
  VerbsOptions own = options;
  own.disconnect_timeout_ms = std::max(own.disconnect_timeout_ms, 10'000U);
  Result<DeviceSurvey> surveyed = survey(own);
  if (!surveyed) return tl::unexpected(surveyed.error());
  auto fabric = std::make_unique<FabricImpl>(std::move(own), std::move(*surveyed));
  if (const Errc error = fabric->open(); error != Errc::ok) return tl::unexpected(error);
  return fabric;
}

FabricImpl::FabricImpl(VerbsOptions options, DeviceSurvey surveyed)
    : options_(std::move(options)),
      capabilities_(surveyed.can),
      limits_(std::move(surveyed.limits)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)),
      memory_(options_, regions_) {
  if (!options_.host_names) destinations_.disable_lookups();
}

Errc FabricImpl::open() {
  errno = 0;
  channel_.reset(rdma_create_event_channel());
  if (channel_ == nullptr) {
    int error = errno;
    // librdmacm reports a device file as missing if the process has no permission to open it.
    if (::access("/dev/infiniband/rdma_cm", R_OK | W_OK) != 0 && errno == EACCES) error = EACCES;
    log(LogLevel::error,
        "cannot reach the RDMA connection manager: " + errno_text(error) + channel_advice(error));
    return error == EACCES || error == EPERM ? Errc::no_permission : Errc::not_supported;
  }
  const int flags = ::fcntl(channel_->fd, F_GETFL);
  const bool ready = flags >= 0 && ::fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
                     epoll_.get() >= 0 && timer_.get() >= 0 && watch(channel_->fd, &channel_) &&
                     watch(timer_.get(), &timer_);
  return ready ? Errc::ok : Errc::no_memory;
}

FabricImpl::~FabricImpl() {
  // Destroy connections before their memory and devices, and identifiers before their channel.
  for (const auto& [key, connection] : connections_) end(*connection);
  connections_.clear();
  for (auto& [number, request] : requests_) refuse(request->id);
  requests_.clear();
  listeners_.clear();
  leaving_.clear();
  free_at_next_poll_.clear();
  queues_.clear();
  for (auto& device : devices_) {
    if (device != nullptr) memory_.forget(*device);
  }
}

bool FabricImpl::watch(int fd, void* tag) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = tag;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

Device* FabricImpl::open_device_of(const rdma_cm_id& id) const noexcept {
  if (id.verbs == nullptr) return nullptr;
  const char* const name = ibv_get_device_name(id.verbs->device);
  for (const auto& device : devices_) {
    if (device != nullptr && !device->gone && device->name == name) return device.get();
  }
  return nullptr;
}

Device* FabricImpl::device_of(const rdma_cm_id& id) {
  if (id.verbs == nullptr) return nullptr;
  if (Device* const known = open_device_of(id)) {
    if (known->answers()) return known;
    // A device without connections may have been removed and added again unnoticed.
    lose_device(*known, Listeners::keep);
  }
  const std::string name = ibv_get_device_name(id.verbs->device);
  if (!options_.device.empty() && options_.device != name) {
    log(LogLevel::warning,
        "the address belongs to the device " + name + ", and only " + options_.device + " is to be used");
    return nullptr;
  }
  const auto limits =
      std::find_if(limits_.begin(), limits_.end(), [&name](const auto& one) { return one.first == name; });
  auto device = Device::open(options_, name, limits == limits_.end() ? nullptr : &limits->second);
  if (device == nullptr) return nullptr;
  const std::size_t index =
      static_cast<std::size_t>(std::find(devices_.begin(), devices_.end(), nullptr) - devices_.begin());
  if (index == devices_.size()) devices_.emplace_back();
  device->index = index;
  if (!watch(device->channel->fd, &device->completions) ||
      !watch(device->context->async_fd, &device->trouble))
    return nullptr;
  memory_.adopt(*device);
  const bool calls = device->limits.send_ops != 0;
  log(LogLevel::info, "using the RDMA device " + name + ": " + std::to_string(device->limits.send_depth) +
                          " work requests a connection, " + std::to_string(device->limits.inline_bytes) +
                          " bytes inline, posted by " + (calls ? "ibv_wr_*()" : "ibv_post_send()"));
  if (options_.posting == Posting::calls && !calls)
    log(LogLevel::unmet, name + ": its library lacks some of ibv_wr_*(), so ibv_post_send() is used");
  if (options_.thread_domains) {
    const bool taken = device->take_thread_domain();
    log(taken ? LogLevel::info : LogLevel::unmet,
        name + (taken ? ": queue pairs are in a thread domain, without locks"
                      : ": no thread domain, so that queue pairs keep their locks: " + errno_text(errno)));
  }
  devices_[index] = std::move(device);
  return devices_[index].get();
}

void FabricImpl::drop_gone_devices() noexcept {
  check_devices_due_ = false;
  for (auto& device : devices_) {
    if (device != nullptr && std::exchange(device->suspect, false) && !device->answers())
      lose_device(*device, Listeners::close);
    if (device == nullptr || !device->gone) continue;
    if (device->connections != 0) {
      check_devices_due_ = true;
      continue;
    }
    drop_queues_of(*device);
    memory_.forget(*device);
    device.reset();
  }
}

Connection& FabricImpl::create(ConKey key, const ConnectionParams& params, bool is_client,
                               std::span<const std::byte> private_data) {
  const FabricParts around{options_, memory_, stats_};
  Connection& made =
      connections_.add(std::make_unique<Connection>(around, key, params, is_client, private_data));
  // Reserves room, so that the lists never grow while IO runs.
  for (auto* list : {&ending_, &unposted_, &with_shown_, &accepting_}) list->reserve(connections_.size());
  return made;
}

std::string FabricImpl::describe(ConKey key) const {
  const Connection* connection = find(key);
  return connection == nullptr ? "? > ?" : connection->describe();
}

DevicePort FabricImpl::device_of(ConKey key) const {
  const Connection* connection = find(key);
  return connection == nullptr ? DevicePort{} : connection->device_port();
}

std::string FabricImpl::describe_request(std::uint32_t request) const {
  const auto found = requests_.find(request);
  if (found == requests_.end() || found->second->id == nullptr) return "";
  rdma_cm_id* id = found->second->id.get();
  return to_text(rdma_get_peer_addr(id)) + " > " + to_text(rdma_get_local_addr(id));
}

const Capabilities& FabricImpl::capabilities_of_request(std::uint32_t request) const noexcept {
  const auto found = requests_.find(request);
  const Device* device = nullptr;
  if (found != requests_.end() && found->second->id != nullptr) device = open_device_of(*found->second->id);
  return device == nullptr ? capabilities_ : device->can;
}

void FabricImpl::post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept {
  // The common case: one more receive on the connection of the last call. Rare cases are in a separate
  // function so that no registers are saved here.
  Connection* const last = connections_.last_found();
  if (last == nullptr || last->key() != key || !last->post_receive_again(count, bytes_each))
    return post_receives(key, count, bytes_each);
  flush_soon(*last);
}

void FabricImpl::post_receives(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept {
  Connection* connection = find(key);
  if (connection == nullptr || connection->stage() == Connection::Stage::lost) return;
  connection->post_receive(count, bytes_each);
  if (connection->failed()) return report_lost(*connection, connection->failure());
  flush_soon(*connection);
}

std::size_t FabricImpl::post(std::span<const WorkRequest> work) noexcept {
  std::size_t accepted = 0;
  while (accepted < work.size()) {
    Connection* connection = find(work[accepted].key);
    if (connection == nullptr || connection->stage() == Connection::Stage::lost) {
      ++accepted;
      continue;
    }
    if (connection->stage() == Connection::Stage::pending) break;
    const std::size_t posted = connection->post(work.subspan(accepted));
    accepted += posted;
    if (connection->failed()) {
      report_lost(*connection, connection->failure());
    } else if (posted == 0) {
      break;
    } else {
      flush_soon(*connection);
    }
  }
  return accepted;
}

}  // namespace rtrs::verbs
