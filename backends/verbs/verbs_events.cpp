// Events from the connection manager and from devices.
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "backends/verbs/verbs_address.hpp"
#include "backends/verbs/verbs_fabric.hpp"
#include "backends/verbs/verbs_status.hpp"

namespace rtrs::verbs {
namespace {

constexpr int kRejectedByConsumer = 28;

// Name of the identifier's device; empty if it has none.
std::string name_of(const rdma_cm_id* id) {
  return id == nullptr || id->verbs == nullptr ? std::string() : ibv_get_device_name(id->verbs->device);
}

}  // namespace

void FabricImpl::read_manager() {
  rdma_cm_event* reported = nullptr;
  while (rdma_get_cm_event(channel_.get(), &reported) == 0) {
    CmEvent event;
    event.type = reported->event;
    event.status = reported->status;
    event.id = reported->id;
    const rdma_conn_param& params = reported->param.conn;
    if (params.private_data != nullptr)
      event.data.assign(static_cast<const char*>(params.private_data), params.private_data_len);
    // Acknowledges first, because an identifier with an unacknowledged event cannot be destroyed.
    rdma_ack_cm_event(reported);
    handle(event);
  }
}

void FabricImpl::handle(const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return handle_request(event);
  const Owner& owner = *static_cast<const Owner*>(event.id->context);
  switch (owner.kind) {
    case Owner::Kind::connection:
      return handle_connection(*static_cast<Connection*>(owner.object), event);
    case Owner::Kind::leaving:
      return handle_leaving(*static_cast<Leaving*>(owner.object), event);
    case Owner::Kind::request:
      // Any event before the reply means that the peer gave up.
      static_cast<Request*>(owner.object)->id.reset();
      return;
    case Owner::Kind::listener:
      return handle_listener(*static_cast<Listener*>(owner.object), event);
  }
}

void FabricImpl::handle_listener(Listener& listener, const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_ADDR_CHANGE) {
    log(LogLevel::warning,
        listener.text + " has moved to another network interface (a bond failed over); listening there");
    listener.id.reset();
    return retry_listeners();
  }
  if (event.type != RDMA_CM_EVENT_DEVICE_REMOVAL) return;
  const std::string name = name_of(listener.id.get());
  for (const auto& device : devices_) {
    if (device != nullptr && !device->gone && device->name == name) lose_device(*device, Listeners::close);
  }
  // The next call is needed if the removed device was not in use.
  leave_device(name);
}

// Closes the listeners and requests of a removed device.
void FabricImpl::leave_device(const std::string& name) {
  for (const auto& listener : listeners_) {
    if (listener->id == nullptr || name_of(listener->id.get()) != name) continue;
    log(LogLevel::warning,
        "the RDMA device of " + listener->text + " was removed; listening again when it is back");
    listener->id.reset();
    listen_again_ = now_ + kListenAgain;
  }
  for (const auto& [number, request] : requests_) {
    if (request->id != nullptr && name_of(request->id.get()) == name) request->id.reset();
  }
  std::erase_if(leaving_, [&](const auto& leaving) { return name_of(leaving->id.get()) == name; });
  set_timer();
}

void FabricImpl::handle_request(const CmEvent& event) {
  // Examines the device before the request is accepted; accept() rejects the request if there is no device.
  if (Device* const device = device_of(*event.id)) log_invalidation_method(*device);
  auto request = std::make_unique<Request>();
  request->owner.object = request.get();
  request->id.reset(event.id);
  event.id->context = &request->owner;
  event::ConnectRequested requested;
  requested.request = ++next_request_;
  requested.address_pair = address_pair_digest(rdma_get_peer_addr(event.id), rdma_get_local_addr(event.id));
  requested.host = host_digest(rdma_get_peer_addr(event.id));
  report(requested, event.data);
  requests_.emplace(requested.request, std::move(request));
}

void FabricImpl::handle_leaving(Leaving& leaving, const CmEvent& event) {
  if (event.type == RDMA_CM_EVENT_DISCONNECTED && !leaving.answered) {
    if (!leaving.told) rdma_disconnect(leaving.id.get());
    leaving.answered = true;
    leaving.deadline = now_ + milliseconds(options_.disconnect_timeout_ms);
    return set_timer();
  }
  if (event.type == RDMA_CM_EVENT_ESTABLISHED && !std::exchange(leaving.told, true)) {
    rdma_disconnect(leaving.id.get());
    return;
  }
  std::erase_if(leaving_, [&](const auto& one) { return one.get() == &leaving; });
  set_timer();
}

void FabricImpl::handle_connection(Connection& connection, const CmEvent& event) {
  const bool lost = connection.stage() == Connection::Stage::lost;
  const bool connecting = connection.is_client() && connection.stage() == Connection::Stage::pending;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (connecting) find_route(connection);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (connecting) send_request(connection);
      return;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (connecting) take_response(connection, event);
      return;
    case RDMA_CM_EVENT_ESTABLISHED:
      connection.established = true;
      return;
    case RDMA_CM_EVENT_DISCONNECTED:
      // The peer waits for this reply.
      rdma_disconnect(connection.id.get());
      connection.established = connection.accepted = false;
      connection.in_timewait = true;
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      connection.established = connection.accepted = connection.in_timewait = false;
      // Skips a device of the same name that has been added since.
      if (connection.device() != nullptr) lose_device(*connection.device(), Listeners::close);
      break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_ADDR_CHANGE:
      break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
      connection.accepted = false;
      // The peer stopped waiting for the accept.
      if (event.type == RDMA_CM_EVENT_REJECTED && std::exchange(connection.established, false))
        connection.in_timewait = true;
      break;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      return;
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      connection.in_timewait = false;
      return;
  }
  if (!lost && connection.stage() != Connection::Stage::lost) handle_failure(connection, event);
}

void FabricImpl::handle_failure(Connection& connection, const CmEvent& event) {
  // On an established connection, UNREACHABLE means that the peer's hardware address has changed.
  const bool moved = event.type == RDMA_CM_EVENT_UNREACHABLE && connection.established;
  const Reason reason = moved ? Reason::transport_error : connect_reason(event.type, event.status);
  const std::string text =
      connection.describe() + ": " +
      (moved ? "the hardware address of the peer has changed, and packets still go to the old one"
             : connect_text(event.type, event.status));
  if (connection.is_client() && connection.stage() == Connection::Stage::pending) {
    // The kernel sends the same reject for a process that has exited, but with a field of zeros.
    const bool with_data = event.type == RDMA_CM_EVENT_REJECTED && event.status == kRejectedByConsumer &&
                           event.data.find_first_not_of('\0') != std::string::npos;
    return fail_connect(connection, reason, text, with_data ? event.data : std::string());
  }
  const bool polite = event.type == RDMA_CM_EVENT_DISCONNECTED;
  log(polite ? LogLevel::debug : LogLevel::warning,
      polite ? connection.describe() + ": the peer left" : text);
  if (connection.stage() == Connection::Stage::up) {
    // Data that has arrived is still reported.
    connection.set_ending(event.type == RDMA_CM_EVENT_REJECTED ? Reason::peer_closed : reason);
    activate(connection);
  } else {
    report_lost(connection, Reason::peer_closed);
  }
}

void FabricImpl::read_completions(Device& device) noexcept {
  ibv_cq* queue = nullptr;
  void* owner = nullptr;
  while (ibv_get_cq_event(device.channel.get(), &queue, &owner) == 0) {
    ibv_ack_cq_events(queue, 1);
    activate(*static_cast<SharedQueue*>(owner));
  }
}

void FabricImpl::read_trouble(Device& device) noexcept {
  ibv_async_event event{};
  while (ibv_get_async_event(device.context.get(), &event) == 0) {
    const ibv_async_event copy = event;
    // Acknowledges first, because the object of an unacknowledged event cannot be destroyed.
    ibv_ack_async_event(&event);
    handle_trouble(device, copy);
  }
}

void FabricImpl::handle_trouble(Device& device, const ibv_async_event& event) {
  Connection* connection = nullptr;
  switch (event.event_type) {
    case IBV_EVENT_COMM_EST: {
      // Data arrived before the peer's last set-up message, which may be lost.
      auto* const early = static_cast<Connection*>(event.element.qp->qp_context);
      if (early != nullptr && !early->established && early->id != nullptr)
        rdma_notify(early->id.get(), IBV_EVENT_COMM_EST);
      return;
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      connection = static_cast<Connection*>(event.element.qp->qp_context);
      break;
    case IBV_EVENT_CQ_ERR:
      log(LogLevel::error, device.name + ": " + ibv_event_type_str(event.event_type));
      return lose_queue(*static_cast<SharedQueue*>(event.element.cq->cq_context), Reason::transport_error);
    case IBV_EVENT_DEVICE_FATAL:
      return lose_device(device, Listeners::close);
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE:
      return port_changed(device, static_cast<std::uint8_t>(event.element.port_num),
                          event.event_type == IBV_EVENT_PORT_ACTIVE);
    default:
      return log(LogLevel::debug, device.name + ": " + ibv_event_type_str(event.event_type));
  }
  if (connection == nullptr || connection->stage() != Connection::Stage::up) return;
  log(LogLevel::warning, connection->describe() + ": " + ibv_event_type_str(event.event_type));
  connection->set_ending(Reason::transport_error);
  activate(*connection);
}

void FabricImpl::lose_device(Device& device, Listeners listeners) {
  if (std::exchange(device.gone, true)) return;
  check_devices_due_ = true;
  chores_ |= kRareChores;
  ++stats_.removed_devices;
  const char* const takes_back = std::getenv("RDMAV_ALLOW_DISASSOC_DESTROY");
  const bool leaks = takes_back == nullptr || std::string_view(takes_back) == "0";
  log(LogLevel::error, "the RDMA device " + device.name + " failed or was removed" +
                           (leaks ? "; what was made of it is kept until this process ends, because "
                                    "RDMAV_ALLOW_DISASSOC_DESTROY=1 was not in its environment at the start"
                                  : ""));
  // If the removal is noticed late, listeners and requests already belong to the device that replaced it.
  if (listeners == Listeners::close) leave_device(device.name);
  std::erase_if(leaving_, [&](const auto& leaving) {
    return leaving->shell != nullptr && &leaving->shell->device() == &device;
  });
  for (auto& [key, connection] : connections_) {
    if (connection->device() != &device) continue;
    // The peer can no longer be notified.
    connection->established = connection->accepted = connection->in_timewait = false;
    if (connection->stage() == Connection::Stage::lost) continue;
    if (connection->is_client() && connection->stage() == Connection::Stage::pending) {
      fail_connect(*connection, Reason::fabric_gone,
                   connection->describe() + ": the RDMA device was removed");
    } else {
      report_lost(*connection, Reason::fabric_gone);
    }
  }
}

void expect_removal() noexcept {
  ::setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 0);
}

}  // namespace rtrs::verbs
