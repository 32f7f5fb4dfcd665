// Set-up and teardown of connections.
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "backends/libfabric/ofi_fabric.hpp"
#include "backends/libfabric/ofi_listener.hpp"
#include "backends/libfabric/ofi_status.hpp"
#include "backends/libfabric/tcp_listener.hpp"
#include "core/fabric/errors.hpp"

namespace rtrs::ofi {
namespace {

bool set_address(void*& target, std::size_t& length, const net::SocketAddress* address) {
  std::free(target);
  target = nullptr;
  length = 0;
  if (address == nullptr) return true;
  target = std::malloc(address->length);
  if (target == nullptr) return false;
  std::memcpy(target, &address->storage, address->length);
  length = address->length;
  return true;
}

// Memory (bytes) and number of descriptors that the provider and this backend need for one connection,
// rounded up.
constexpr std::size_t kMemoryOfConnection = std::size_t{4} << 20;
constexpr std::size_t kDescriptorsOfConnection = 10;

// Provider tcp crashes on some failures to get memory or a descriptor. Allocates and frees the same amounts
// beforehand, to detect a shortage in time. Returns 0 or a negative error.
int try_allocations() {
  const std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[kMemoryOfConnection]);
  if (memory == nullptr) return -FI_ENOMEM;
  std::array<net::UniqueFd, kDescriptorsOfConnection> descriptors;
  for (net::UniqueFd& one : descriptors) {
    one.reset(::eventfd(0, EFD_CLOEXEC));
    if (!one) return -errno;
  }
  return 0;
}

}  // namespace

Errc FabricImpl::open_listener() {
  adopter_ = std::make_unique<Adopter>(*device_);
  const bool own = options_.provider == "tcp" && adopter_->open() == Errc::ok;
  if (own) {
    listener_ = std::make_unique<TcpListener>(options_);
  } else {
    listener_ = std::make_unique<Listener>(options_, *device_);
  }
  return listener_->start();
}

Errc FabricImpl::listen(const PathAddress& local) {
  const std::string& text = local.source.empty() ? local.destination : local.source;
  if (text.empty()) return listener_->listen(net::any_address(local.port));
  const std::vector<net::SocketAddress> addresses = destinations_.resolve(text, local.port);
  if (addresses.empty()) {
    log(LogLevel::error, "cannot listen on \"" + text + "\": not an address of this host");
    return Errc::bad_address;
  }
  return listener_->listen(addresses.front());
}

InfoHandle FabricImpl::connect_info(net::Destinations::Route& route) {
  InfoHandle info(library().dupinfo(device_->info.get()));
  net::SocketAddress* const from = route.from.length == 0 ? nullptr : &route.from;
  if (info == nullptr || !set_address(info->dest_addr, info->dest_addrlen, &route.to) ||
      !set_address(info->src_addr, info->src_addrlen, from))
    return nullptr;
  info->addr_format = route.to.family() == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
  return info;
}

void FabricImpl::connect(ConKey key, const PathAddress& address, const ConnectionParams& params,
                         std::span<const std::byte> private_data) {
  Connection& connection = create(key, params, true);
  if (!wait_for_names(key, address, params.address, private_data))
    begin_connecting(connection, {key, address, params.address}, private_data);
}

bool FabricImpl::wait_for_names(ConKey key, const PathAddress& address, unsigned index,
                                std::span<const std::byte> private_data) {
  if (!destinations_.ask(key, address, index)) return false;
  if (!names_watched_ && !watch(destinations_.wait_fd(), &destinations_)) {
    // If there is no descriptor to wait on, the attempt fails as if the name could not be resolved.
    destinations_.forget(key);
    return false;
  }
  names_watched_ = true;
  unresolved_[key] = {private_data.begin(), private_data.end()};
  return true;
}

void FabricImpl::connect_named() {
  for (const net::Destinations::Ready& ready : destinations_.take()) {
    const auto node = unresolved_.extract(ready.key);
    Connection* const connection = node.empty() ? nullptr : find(ready.key);
    if (connection == nullptr || connection->stage() != Connection::Stage::pending) continue;
    begin_connecting(*connection, ready, node.mapped());
  }
}

void FabricImpl::begin_connecting(Connection& connection, const net::Destinations::Ready& where,
                                  std::span<const std::byte> private_data) {
  const PathAddress& address = where.path;
  auto route = destinations_.route(where.key, address, where.address);
  if (!route) {
    fail_connect(connection, address, route.error().reason, route.error().text);
    return;
  }
  if (route->is_choice(where.key)) report(event::AddressesFound{where.key, route->count});
  const InfoHandle info = connect_info(*route);
  if (info == nullptr) {
    fail_connect(connection, address, Reason::no_resources, "");
    return;
  }
  const net::SocketAddress& destination = route->to;
  connection.set_addresses(net::from_raw(info->src_addr, info->src_addrlen), destination);
  // Some providers copy the data without a length check, so this function checks the length.
  if (private_data.size() > capabilities().connect_data) {
    fail_connect(connection, address, Reason::post_failed, "too much private data");
    return;
  }
  int result = open_endpoint(connection, *info);
  if (result == 0) {
    result =
        fi_connect(connection.endpoint(), &destination.storage, private_data.data(), private_data.size());
  }
  if (result == 0) connection.set_begun();
  if (result != 0) {
    const bool not_ours = result == -FI_EADDRNOTAVAIL && !address.source.empty();
    fail_connect(connection, address, not_ours ? Reason::source_unavailable : connect_reason(-result, false),
                 error_text(-result));
  }
}

void FabricImpl::refuse(ConnectRequest& request, std::span<const std::byte> private_data) {
  if (private_data.size() > capabilities().reject_data) private_data = {};
  // The socket of a request stays open even if an endpoint served it and was closed, so the reject is sent
  // over the socket.
  const bool by_socket = static_cast<bool>(request.socket);
  if (by_socket) cm::send_reject(request.socket.get(), private_data.data(), private_data.size());
  if (request.info != nullptr && request.passive != nullptr) {
    fi_reject(request.passive, request.info->handle, by_socket ? nullptr : private_data.data(),
              by_socket ? 0 : private_data.size());
  }
}

int FabricImpl::serve(Connection& connection, ConnectRequest& from, std::span<const std::byte> private_data) {
  int result = from.info != nullptr ? 0 : adopter_->adopt(from);
  if (result == 0) result = open_endpoint(connection, *from.info);
  if (result == 0) result = fi_accept(connection.endpoint(), private_data.data(), private_data.size());
  if (result == 0) connection.set_begun();
  return result;
}

void FabricImpl::accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
                        std::span<const std::byte> private_data) {
  auto node = requests_.extract(request);
  int result = try_allocations();
  Connection& connection = create(key, result == 0 ? params : ConnectionParams{}, false);
  if (node.empty() || private_data.size() > capabilities().accept_data) {
    if (!node.empty()) refuse(node.mapped(), {});
    report_lost(connection, Reason::post_failed);
    return;
  }
  ConnectRequest& from = node.mapped();
  connection.set_addresses(from.client, from.server);
  if (result == 0) result = serve(connection, from, private_data);
  if (result == 0) return;
  log(LogLevel::warning, connection.description() + ": cannot accept: " + error_text(-result));
  // The endpoint is destroyed first, because it uses resources that the reject frees.
  const Reason reason = connect_reason(-result, false);
  report_lost(connection, reason == Reason::transport_error ? Reason::no_resources : reason);
  refuse(from, params.refusal);
}

void FabricImpl::reject(std::uint32_t request, std::span<const std::byte> private_data) {
  auto node = requests_.extract(request);
  if (!node.empty()) refuse(node.mapped(), private_data);
}

void FabricImpl::disconnect(ConKey key) {
  std::unique_ptr<Connection> closed = connections_.remove(key);
  if (closed == nullptr) return;
  Connection& connection = *closed;
  shut(connection);
  std::erase(with_delivered_, &connection);
  destinations_.forget(key);
  unresolved_.erase(key);
  pending_.drop(key);
  free_at_next_poll_.push_back(std::move(closed));
  report(event::ConnectionClosed{key});
}

void FabricImpl::shut(Connection& connection) noexcept {
  if (connection.wait_fd() >= 0) ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, connection.wait_fd(), nullptr);
  if (std::exchange(connection.in_ready_list, false)) std::erase(ready_, &connection);
  if (std::exchange(connection.in_unarmed_list, false)) std::erase(unarmed_, &connection);
  if (connection.endpoint() != nullptr && by_endpoint_.erase(&connection.endpoint()->fid) != 0)
    --endpoints_open_;
  connection.close();
}

void FabricImpl::report(const FabricEvent& event, std::string bytes) {
  pending_.add(event, std::move(bytes));
}

void FabricImpl::report_lost(Connection& connection, Reason reason) {
  connection.set_stage(Connection::Stage::lost);
  shut(connection);
  report(event::ConnectionLost{connection.key(), reason});
}

void FabricImpl::fail_connect(Connection& connection, const PathAddress& address, Reason reason,
                              std::string detail, std::string bytes) {
  const std::string where = address.destination.empty()
                                ? connection.description()
                                : address.destination + " port " + std::to_string(address.port);
  log(LogLevel::warning, where + ": " + sentence_with(reason, detail));
  connection.set_stage(Connection::Stage::lost);
  shut(connection);
  report(event::ConnectFailed{connection.key(), reason, {}}, std::move(bytes));
}

void FabricImpl::take_requests() {
  for (ConnectRequest& request : listener_->take()) {
    try {
      take_request(request);
    } catch (const std::bad_alloc&) {
      refuse(request, {});
    }
  }
}

// Leaves the request unchanged if there is no memory.
void FabricImpl::take_request(ConnectRequest& request) {
  event::ConnectRequested requested;
  requested.request = ++next_request_;
  requested.address_pair = address_pair_digest(request.client, request.server);
  requested.host = host_digest(request.client);
  std::string bytes = request.private_data;
  pending_.reserve_one();
  requests_.emplace(requested.request, std::move(request));
  report(requested, std::move(bytes));
}

void FabricImpl::read_events() {
  // Size of an event: its header plus the maximum data of a connection.
  alignas(fi_eq_cm_entry) std::array<std::byte, sizeof(fi_eq_cm_entry) + 1024> space;
  for (;;) {
    std::uint32_t event = 0;
    const ssize_t size = fi_eq_read(events_.get(), &event, space.data(), space.size(), 0);
    if (size == -FI_EAVAIL) {
      handle_event_error();
    } else if (size < static_cast<ssize_t>(sizeof(fi_eq_cm_entry))) {
      return;
    } else {
      handle_event(event, *reinterpret_cast<const fi_eq_cm_entry*>(space.data()),
                   static_cast<std::size_t>(size) - sizeof(fi_eq_cm_entry));
    }
  }
}

Connection* FabricImpl::find_by_endpoint(const fid* endpoint) noexcept {
  const auto found = by_endpoint_.find(endpoint);
  return found == by_endpoint_.end() ? nullptr : found->second;
}

void FabricImpl::handle_event(std::uint32_t event, const fi_eq_cm_entry& entry, std::size_t data_size) {
  Connection* connection = find_by_endpoint(entry.fid);
  if (connection == nullptr || connection->stage() == Connection::Stage::lost) return;
  if (event == FI_CONNECTED && connection->stage() == Connection::Stage::pending) {
    connection->set_stage(Connection::Stage::up);
    mark_ready(*connection);
    if (!connection->is_client()) return;
    connection->read_addresses(options_.undelivered_timeout_ms);
    report(event::Connected{connection->key(), {}},
           std::string(reinterpret_cast<const char*>(entry.data), data_size));
  } else if (event == FI_SHUTDOWN) {
    connection->set_ending(Reason::peer_closed);
    mark_ready(*connection);
  }
}

void FabricImpl::handle_event_error() {
  std::array<char, 1024> data;
  fi_eq_err_entry error{};
  error.err_data = data.data();
  error.err_data_size = data.size();
  if (fi_eq_readerr(events_.get(), &error, 0) < 0) return;
  Connection* connection = find_by_endpoint(error.fid);
  if (connection == nullptr || connection->stage() == Connection::Stage::lost) return;
  const auto* bytes = static_cast<const char*>(error.err_data);
  const std::size_t size = bytes == nullptr ? 0 : error.err_data_size;
  if (connection->stage() == Connection::Stage::pending && connection->is_client()) {
    const Reason reason = connect_reason(error.err, size != 0);
    fail_connect(*connection, {}, reason, error_text(error.err), std::string(bytes, size));
  } else {
    connection->set_ending(loss_reason(error.err));
    mark_ready(*connection);
  }
}

}  // namespace rtrs::ofi
