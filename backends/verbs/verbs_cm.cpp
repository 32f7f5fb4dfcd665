// Connection set-up and teardown requested by the owner of the fabric.
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/verbs/verbs_address.hpp"
#include "backends/verbs/verbs_fabric.hpp"
#include "backends/verbs/verbs_status.hpp"

namespace rtrs::verbs {
namespace {

// 0 means the system's maximum: net.rdma_ucm.max_backlog, by default 1,024.
constexpr int kBacklog = 0;

rdma_port_space port_space_of(const net::SocketAddress& address) {
  return is_gid(address.get()) ? RDMA_PS_IB : RDMA_PS_TCP;
}

IdHandle make_id(rdma_event_channel* channel, void* owner, rdma_port_space space) {
  rdma_cm_id* id = nullptr;
  return IdHandle(rdma_create_id(channel, &id, owner, space) == 0 ? id : nullptr);
}

std::string where(const PathAddress& address) {
  return address.destination + " port " + std::to_string(address.port);
}

// Sets the options of an identifier. The connection manager also sends the ACK timeout to the peer. Kernels
// before 5.1 do not support this option; then only this side uses the timeout.
void set_options(rdma_cm_id* id, const VerbsOptions& options) {
  std::uint8_t timeout = options.ack_timeout, tos = options.tos;
  if (timeout != 0) rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout);
  if (tos != 0) rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos);
}

rdma_conn_param request_params(const Connection& connection, const VerbsOptions& options) {
  rdma_conn_param params{};
  params.private_data = connection.private_data().data();
  params.private_data_len = static_cast<std::uint8_t>(connection.private_data().size());
  params.retry_count = options.retry_count;
  params.rnr_retry_count = 7;  // 7 means infinite
  return params;
}

}  // namespace

std::uint16_t FabricImpl::listening_port() const noexcept {
  if (listeners_.empty() || listeners_.back()->id == nullptr) return 0;
  return ntohs(rdma_get_src_port(listeners_.back()->id.get()));
}

bool FabricImpl::try_listen(Listener& listener, int& error) {
  listener.id = make_id(channel_.get(), &listener.owner, port_space_of(listener.address));
  if (listener.id != nullptr && rdma_bind_addr(listener.id.get(), listener.address.get()) == 0 &&
      rdma_listen(listener.id.get(), kBacklog) == 0) {
    // Listening on a loopback address succeeds, but no client can reach such an address.
    if (listener.id->verbs != nullptr || is_wildcard(listener.address.get())) {
      // Stores the chosen port, so that after a device removal it listens on the same port again.
      if (!is_gid(listener.address.get()))
        listener.address.set_port(ntohs(rdma_get_src_port(listener.id.get())));
      return true;
    }
    errno = ENODEV;
  }
  error = errno;
  listener.id.reset();
  return false;
}

Errc FabricImpl::listen(const PathAddress& local) {
  const std::string& text = local.source.empty() ? local.destination : local.source;
  auto listener = std::make_unique<Listener>();
  listener->owner.object = listener.get();
  listener->text = text.empty() ? "any address" : text;
  if (text.empty()) {
    listener->address = net::any_address(local.port);
  } else {
    const std::vector<net::SocketAddress> addresses = destinations_.resolve(text, local.port);
    if (addresses.empty()) {
      log(LogLevel::error, "cannot listen on \"" + text + "\": not an address");
      return Errc::bad_address;
    }
    listener->address = addresses.front();
  }
  int error = 0;
  if (!try_listen(*listener, error)) {
    const bool foreign = error == EADDRNOTAVAIL || error == ENODEV;
    log(LogLevel::error, "cannot listen on " + listener->text + " port " + std::to_string(local.port) + ": " +
                             (foreign ? "no RDMA device of this host has this address; 'rdma link' lists "
                                        "them with their network interfaces"
                                      : errno_text(error)));
    return to_errc(error);
  }
  // Opens the device now, so that the first client does not wait for it.
  if (listener->id->verbs != nullptr) {
    Device* const device = device_of(*listener->id);
    if (device == nullptr) return Errc::no_memory;
    log_invalidation_method(*device);
  }
  listeners_.push_back(std::move(listener));
  return Errc::ok;
}

void FabricImpl::connect(ConKey key, const PathAddress& address, const ConnectionParams& params,
                         std::span<const std::byte> private_data) {
  Connection& connection = create(key, params, true, private_data);
  if (private_data.size() > capabilities_.connect_data)
    return fail_connect(connection, Reason::post_failed, where(address) + ": too much private data");
  if (!wait_for_names(key, address, params.address))
    begin_connecting(connection, {key, address, params.address});
}

bool FabricImpl::wait_for_names(ConKey key, const PathAddress& address, unsigned index) {
  if (!destinations_.ask(key, address, index)) return false;
  if (!names_watched_ && !watch(destinations_.wait_fd(), &destinations_)) {
    // If there is no descriptor to wait on, the attempt fails as if the name could not be resolved.
    destinations_.forget(key);
    return false;
  }
  names_watched_ = true;
  return true;
}

void FabricImpl::connect_named() {
  for (const net::Destinations::Ready& ready : destinations_.take()) {
    Connection* const connection = find(ready.key);
    if (connection == nullptr || connection->stage() != Connection::Stage::pending) continue;
    begin_connecting(*connection, ready);
  }
}

void FabricImpl::begin_connecting(Connection& connection, const net::Destinations::Ready& target) {
  const PathAddress& address = target.path;
  auto route = destinations_.route(target.key, address, target.address);
  if (!route)
    return fail_connect(connection, route.error().reason, where(address) + ": " + route.error().text);
  if (route->is_choice(target.key)) report(event::AddressesFound{target.key, route->count});
  connection.id = make_id(channel_.get(), &connection.owner, port_space_of(route->to));
  if (connection.id == nullptr)
    return fail_connect(connection, Reason::no_resources, where(address) + ": " + errno_text(errno));
  // The options are set before route resolution, which uses them.
  set_options(connection.id.get(), options_);
  sockaddr* const source = route->from.length == 0 ? nullptr : route->from.get();
  const int timeout = static_cast<int>(options_.resolve_timeout_ms);
  if (rdma_resolve_addr(connection.id.get(), source, route->to.get(), timeout) != 0) {
    const int error = errno;
    fail_connect(connection, connect_reason(RDMA_CM_EVENT_ADDR_ERROR, -error),
                 where(address) + ": " + connect_text(RDMA_CM_EVENT_ADDR_ERROR, -error));
  }
}

void FabricImpl::find_route(Connection& connection) {
  Device* device = device_of(*connection.id);
  if (device == nullptr || !open(connection, *device)) {
    return fail_connect(connection, Reason::no_resources,
                        connection.describe() + ": no resources to connect");
  }
  if (rdma_resolve_route(connection.id.get(), static_cast<int>(options_.resolve_timeout_ms)) != 0) {
    fail_connect(connection, Reason::address_unresolved,
                 connection.describe() + ": " + connect_text(RDMA_CM_EVENT_ROUTE_ERROR, -errno));
  }
}

void FabricImpl::send_request(Connection& connection) {
  rdma_conn_param params = request_params(connection, options_);
  params.qp_num = connection.qp()->qp_num;
  if (rdma_connect(connection.id.get(), &params) != 0) {
    fail_connect(connection, Reason::transport_error,
                 connection.describe() + ": cannot send the request: " + errno_text(errno));
  }
}

void FabricImpl::take_response(Connection& connection, const CmEvent& event) {
  if (!connection.make_ready() || rdma_establish(connection.id.get()) != 0) {
    return fail_connect(connection, Reason::transport_error,
                        connection.describe() + ": cannot complete the connection: " + errno_text(errno));
  }
  connection.established = true;
  log_retry_time(connection);
  connection.set_stage(Connection::Stage::up);
  activate(connection);
  report(event::Connected{connection.key(), {}}, event.data);
}

void FabricImpl::accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
                        std::span<const std::byte> private_data) {
  Connection& connection = create(key, params, false, private_data);
  const auto node = requests_.extract(request);
  if (node.empty() || node.mapped()->id == nullptr) return report_lost(connection, Reason::peer_closed);
  connection.id = std::move(node.mapped()->id);
  connection.id->context = &connection.owner;
  if (private_data.size() > capabilities_.accept_data) {
    refuse(connection.id);
    return report_lost(connection, Reason::post_failed);
  }
  Device* device = device_of(*connection.id);
  if (device == nullptr || !open(connection, *device)) {
    refuse(connection.id, params.refusal);
    return report_lost(connection, Reason::no_resources);
  }
  accepting_.push_back(&connection);
  chores_ |= kRareChores;
}

void FabricImpl::start_accepts() {
  for (Connection* connection : std::exchange(accepting_, {})) {
    rdma_conn_param params = request_params(*connection, options_);
    params.qp_num = connection->qp()->qp_num;
    if (!connection->make_ready() || rdma_accept(connection->id.get(), &params) != 0) {
      log(LogLevel::warning, connection->describe() + ": cannot accept: " + errno_text(errno));
      refuse(connection->id);
      report_lost(*connection, Reason::transport_error);
      continue;
    }
    connection->accepted = true;
    log_retry_time(*connection);
    connection->set_stage(Connection::Stage::up);
    activate(*connection);
  }
}

void FabricImpl::log_retry_time(Connection& connection) {
  Device& device = *connection.device();
  const Retries retries = connection.retries();
  if (std::exchange(device.told, retries) == retries) return;
  const TimerKind kind = device.timers();
  const Patience time = patience(kind, retries);
  const bool outlasts = options_.dead_peer_time != 0 && time.most > options_.dead_peer_time;
  std::string text = device.name + ": a packet without an acknowledgement is sent " +
                     std::to_string(retries.count + 1) + " times, with ack timeout " +
                     std::to_string(retries.timeout) + ", which takes " + seconds_text(time.least);
  if (time.most != time.least) text += " to " + seconds_text(time.most);
  if (outlasts) {
    text += "; the heartbeat declares the peer dead after " + seconds_text(options_.dead_peer_time) +
            ", before the device does";
    const std::uint8_t better = max_timeout_within(kind, retries.count, options_.dead_peer_time);
    text += better != 0 ? ": use an ack timeout (--rdma-ack-timeout) of at most " + std::to_string(better)
                        : ": use fewer retries (--rdma-retry-count) or a longer heartbeat";
  }
  log(outlasts ? LogLevel::warning : LogLevel::info, text);
}

// A plain reject without data would send errno 0 to the kernel client, which then waits 30 s.
void FabricImpl::refuse(IdHandle& id, std::span<const std::byte> private_data) {
  if (id == nullptr) return;
  if (private_data.empty() || private_data.size() > capabilities_.reject_data)
    rdma_reject_ece(id.get(), nullptr, 0);
  else
    rdma_reject(id.get(), private_data.data(), static_cast<std::uint8_t>(private_data.size()));
  id.reset();
}

void FabricImpl::reject(std::uint32_t request, std::span<const std::byte> private_data) {
  const auto node = requests_.extract(request);
  if (node.empty() || node.mapped()->id == nullptr) return;
  refuse(node.mapped()->id, private_data);
}

void FabricImpl::disconnect(ConKey key) {
  std::unique_ptr<Connection> closed = connections_.remove(key);
  if (closed == nullptr) return;
  Connection& connection = *closed;
  destinations_.forget(key);
  // Sends the requests that were posted before the disconnect.
  if (connection.stage() == Connection::Stage::up && !connection.failed()) connection.flush();
  end(connection);
  if (std::exchange(connection.in_shown_list, false)) std::erase(with_shown_, &connection);
  pending_.drop(key);
  free_at_next_poll_.push_back(std::move(closed));
  chores_ |= kRareChores;
  report(event::ConnectionClosed{key});
}

void FabricImpl::end(Connection& connection) noexcept {
  deactivate(connection);
  if (std::exchange(connection.in_unposted_list, false)) std::erase(unposted_, &connection);
  std::erase(accepting_, &connection);
  const bool tell = std::exchange(connection.established, false);
  const bool tell_later = std::exchange(connection.accepted, false) && !tell;
  // The peer is notified while the queue pair is being destroyed, which neither sends nor receives any more.
  if (tell) rdma_disconnect(connection.id.get());
  if (!tell && !tell_later && !connection.in_timewait) {
    connection.close();
    return connection.id.reset();
  }
  auto leaving = std::make_unique<Leaving>();
  leaving->shell = connection.close_keeping_number();
  leaving->told = !tell_later;
  leaving->answered = connection.in_timewait;
  leaving->owner.object = leaving.get();
  leaving->id = std::move(connection.id);
  leaving->id->context = &leaving->owner;
  leaving->deadline = now_ + milliseconds(options_.disconnect_timeout_ms);
  leaving_.push_back(std::move(leaving));
  set_timer();
}

void FabricImpl::report(const FabricEvent& event, std::string bytes) {
  pending_.add(event, std::move(bytes));
  chores_ |= kRareChores;
  // Another thread may have called while the polling thread sleeps; the polling thread must report the event.
  if (asleep_) wake();
}

void FabricImpl::report_lost(Connection& connection, Reason reason) {
  if (connection.stage() == Connection::Stage::lost) return;
  connection.set_stage(Connection::Stage::lost);
  deactivate(connection);
  std::erase(accepting_, &connection);
  report(event::ConnectionLost{connection.key(), reason});
}

void FabricImpl::fail_connect(Connection& connection, Reason reason, const std::string& text,
                              std::string bytes) {
  log(LogLevel::warning, text);
  connection.set_stage(Connection::Stage::lost);
  report(event::ConnectFailed{connection.key(), reason, {}}, std::move(bytes));
}

// poll() uses its own clock; the timer descriptor only wakes a sleeper.
void FabricImpl::set_timer() noexcept {
  timer_due_ = listen_again_;
  for (const auto& leaving : leaving_) timer_due_ = std::min(timer_due_, leaving->deadline);
  for (const auto& device : devices_) {
    if (device == nullptr || device->gone) continue;
    for (const DownPort& port : device->down) timer_due_ = std::min(timer_due_, port.ends);
  }
  itimerspec when{};
  if (timer_due_ != kNever) {
    const Nanos wait = std::max<Nanos>(timer_due_ > now_ ? timer_due_ - now_ : 0, milliseconds(1));
    when.it_value.tv_sec = static_cast<time_t>(wait / seconds(1));
    when.it_value.tv_nsec = static_cast<long>(wait % seconds(1));
  }
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

// Makes the timer descriptor readable at once. The thread that reads it restores the timer.
void FabricImpl::wake() noexcept {
  itimerspec at_once{};
  at_once.it_value.tv_nsec = 1;
  ::timerfd_settime(timer_.get(), 0, &at_once, nullptr);
}

void FabricImpl::on_timer() noexcept {
  std::erase_if(leaving_, [this](const auto& leaving) {
    if (leaving->deadline > now_) return false;
    if (!leaving->answered) ++stats_.unconfirmed_disconnects;
    return true;
  });
  end_down_ports();
  if (listen_again_ <= now_) return retry_listeners();
  set_timer();
}

void FabricImpl::retry_listeners() {
  listen_again_ = kNever;
  for (const auto& listener : listeners_) {
    int error = 0;
    if (listener->id != nullptr) continue;
    if (try_listen(*listener, error)) {
      log(LogLevel::info, "listening on " + listener->text + " again");
      // Opens the device, as listen() does. The result is ignored, because the device may have been removed
      // again.
      if (listener->id->verbs != nullptr) device_of(*listener->id);
    } else {
      listen_again_ = now_ + kListenAgain;
    }
  }
  set_timer();
}

}  // namespace rtrs::verbs
