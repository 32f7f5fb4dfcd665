// The connection manager: identifiers and their events.
#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "conformance/mock_hca/addresses.hpp"
#include "conformance/mock_hca/world.hpp"

namespace rtrs::mock_hca {

namespace {

using State = Identifier::State;

// As librdmacm gives them: the whole field, whatever of it was filled.
constexpr std::uint8_t kRequestData = 56, kAnswerData = 196, kRejectData = 148;
// net.rdma_ucm.max_backlog of Linux, which stands for 0 too.
constexpr int kMostBacklog = 1024;
// Of enum ib_cm_rej_reason.
constexpr int kNoSuchService = 8, kStale = 10, kByConsumer = 28, kVendorOption = 35;

}  // namespace

void tell(Identifier& id, rdma_cm_event_type type, int status, const void* data, std::size_t bytes,
          std::uint8_t field) {
  auto* event = new ManagerEvent;
  std::memset(static_cast<rdma_cm_event*>(event), 0, sizeof(rdma_cm_event));
  event->id = &id;
  event->event = type;
  event->status = status;
  if (field != 0) {
    if (bytes != 0) std::memcpy(event->data.data(), data, bytes);
    event->param.conn.private_data = event->data.data();
    event->param.conn.private_data_len = field;
  }
  put<rdma_cm_event*>(id.events->events, event,
                      [&id](const rdma_cm_event* before) { return before->id == &id; });
  id.events->signal.give();
}

void part(Identifier& id) {
  if (id.peer != nullptr) id.peer->peer = nullptr;
  id.peer = nullptr;
}

namespace {

// This end is gone or says no more; the other one hears of it.
void leave(Identifier& id) {
  Identifier* const peer = id.peer;
  if (peer == nullptr) return;
  const bool was_up = id.state == State::up || id.state == State::accepted;
  const bool peer_is_up =
      peer->state == State::up || peer->state == State::accepted || peer->state == State::answered;
  if (id.state == State::asking || id.state == State::asked || id.state == State::answered) {
    peer->state = State::over;
    tell(*peer, RDMA_CM_EVENT_REJECTED, kByConsumer, nullptr, 0, id.state == State::asking ? 0 : kRejectData);
  } else if (peer->state == State::leaving || (was_up && peer_is_up)) {
    peer->state = peer->state == State::leaving ? State::over : State::left;
    tell(*peer, RDMA_CM_EVENT_DISCONNECTED);
  }
  part(id);
}

bool port_taken(const Identifier& self, std::uint16_t port, const sockaddr& address) {
  return std::any_of(world().identifiers.begin(), world().identifiers.end(), [&](const Identifier* one) {
    const sockaddr& bound = one->route.addr.src_addr;
    if (one == &self || !one->reserved_port || port_of(bound) != port || bound.sa_family != address.sa_family)
      return false;
    return is_any(bound) || is_any(address) || same_host(bound, address);
  });
}

Identifier* listener_for(const sockaddr& address) {
  Identifier* found = nullptr;
  for (Identifier* one : world().identifiers) {
    const sockaddr& bound = one->route.addr.src_addr;
    if (one->state != State::listening || port_of(bound) != port_of(address)) continue;
    // It belongs to the adapter that had its address when it was bound.
    if (one->verbs != nullptr && one->verbs != adapter_of(address)->of_manager.get()) continue;
    if (same_host(bound, address)) return one;
    // One that takes any address of IPv6 takes IPv4 too.
    if (is_any(bound) && (bound.sa_family == address.sa_family || bound.sa_family == AF_INET6)) found = one;
  }
  return found;
}

Identifier* make(EventChannel& events, void* context, rdma_port_space space) {
  auto* id = new Identifier;
  std::memset(static_cast<rdma_cm_id*>(id), 0, sizeof(rdma_cm_id));
  id->channel = id->events = &events;
  id->context = context;
  id->ps = space;
  world().identifiers.insert(id);
  return id;
}

int refuse(int error) {
  errno = error;
  return -1;
}

}  // namespace

}  // namespace rtrs::mock_hca

using namespace rtrs::mock_hca;

extern "C" {

rdma_event_channel* rdma_create_event_channel() {
  const std::scoped_lock lock(world().lock);
  if (world().falls_short()) return nullptr;
  auto* channel = new EventChannel;
  channel->fd = channel->signal.fd();
  world().event_channels.insert(channel);
  return channel;
}
void rdma_destroy_event_channel(rdma_event_channel* given) {
  const std::scoped_lock lock(world().lock);
  auto* channel = static_cast<EventChannel*>(given);
  for (const Identifier* id : world().identifiers)
    if (id->events == channel) world().problem("an event channel was given back before its identifiers");
  for (rdma_cm_event* event : channel->events) delete static_cast<ManagerEvent*>(event);
  world().event_channels.erase(channel);
  delete channel;
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space space) {
  const std::scoped_lock lock(world().lock);
  if (world().falls_short()) return -1;
  *id = make(*static_cast<EventChannel*>(channel), context, space);
  return 0;
}
int rdma_destroy_id(rdma_cm_id* given) {
  const std::scoped_lock lock(world().lock);
  auto* id = static_cast<Identifier*>(given);
  if (world().identifiers.count(id) == 0) return world().problem("an identifier was given back twice"), -1;
  if (id->unacknowledged != 0)
    world().problem(
        "an identifier was given back with events that nobody acknowledged: the call would wait for ever");
  leave(*id);
  // Requests that nobody has read go with their listener.
  std::erase_if(id->events->events, [id](rdma_cm_event* event) {
    if (event->id != id) return false;
    delete static_cast<ManagerEvent*>(event);
    return true;
  });
  for (Identifier* one : world().identifiers)
    if (one->listener == id) one->listener = nullptr;
  world().identifiers.erase(id);
  delete id;
  return 0;
}

int rdma_bind_addr(rdma_cm_id* given, sockaddr* address) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (!is_any(*address)) {
    Adapter* const adapter = adapter_of(*address);
    if (adapter == nullptr) return refuse(EADDRNOTAVAIL);
    id.verbs = adapter->of_manager.get();
  }
  std::uint16_t port = port_of(*address);
  if (port == 0) {
    do {
      port = world().next_port++;
    } while (port_taken(id, port, *address));
  } else if (port_taken(id, port, *address)) {
    return refuse(EADDRINUSE);
  }
  copy(id.route.addr.src_addr, *address);
  set_port(id.route.addr.src_addr, port);
  id.reserved_port = true;
  return 0;
}
int rdma_listen(rdma_cm_id* given, int backlog) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  id.state = State::listening;
  id.backlog = backlog <= 0 || backlog > kMostBacklog ? kMostBacklog : backlog;
  return 0;
}
std::uint16_t rdma_get_src_port(rdma_cm_id* id) {
  return htons(port_of(id->route.addr.src_addr));
}

int rdma_resolve_addr(rdma_cm_id* given, sockaddr* source, sockaddr* destination, int) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  Adapter* const there = adapter_of(*destination);
  Adapter* const here = source == nullptr ? there : adapter_of(*source);
  if (source != nullptr && here == nullptr) return refuse(EADDRNOTAVAIL);
  copy(id.route.addr.dst_addr, *destination);
  if (there == nullptr) return tell(id, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH), 0;
  for (const sockaddr_storage& own : addresses_of(*here))
    if (own.ss_family == destination->sa_family)
      copy(id.route.addr.src_addr, reinterpret_cast<const sockaddr&>(own));
  set_port(id.route.addr.src_addr, world().next_port++);
  id.verbs = here->of_manager.get();
  id.port_num = 1;
  id.state = State::resolved;
  tell(id, RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}
int rdma_resolve_route(rdma_cm_id* given, int) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (id.state != State::resolved) return refuse(EINVAL);
  id.state = State::routed;
  tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int rdma_init_qp_attr(rdma_cm_id* given, ibv_qp_attr* attributes, int* mask) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  *mask = IBV_QP_STATE;
  if (id.verbs != nullptr && is_over(id.verbs)) return refuse(EINVAL);
  if (attributes->qp_state == IBV_QPS_INIT) {
    if (id.verbs == nullptr) return refuse(EINVAL);
    *mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    attributes->port_num = 1;
    return 0;
  }
  if (id.peer_qp_num == 0) return refuse(EINVAL);
  if (attributes->qp_state == IBV_QPS_RTR) {
    *mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
             IBV_QP_MIN_RNR_TIMER;
    attributes->dest_qp_num = id.peer_qp_num;
    attributes->path_mtu = IBV_MTU_1024;
    attributes->ah_attr.is_global = 1;
    attributes->ah_attr.grh.traffic_class = id.tos;
    return 0;
  }
  *mask |= IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  attributes->timeout = id.ack_timeout != 0 ? id.ack_timeout : 17;
  attributes->retry_cnt = id.retry_count;
  attributes->rnr_retry = 7;
  return 0;
}

int rdma_connect(rdma_cm_id* given, rdma_conn_param* params) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (id.state != State::routed) return refuse(EINVAL);
  if (params->private_data_len > kRequestData) return refuse(EINVAL);
  id.qp_num = params->qp_num;
  Identifier* const listener = listener_for(id.route.addr.dst_addr);
  const auto of_listener = [listener](const Identifier* one) {
    return one->listener == listener && one->state == State::asked;
  };
  if (listener == nullptr || std::count_if(world().identifiers.begin(), world().identifiers.end(),
                                           of_listener) >= listener->backlog) {
    id.state = State::over;
    tell(id, RDMA_CM_EVENT_REJECTED, kNoSuchService, nullptr, 0, kRejectData);
    return 0;
  }
  if (world().stale_rejects != 0 || world().in_timewait.count(id.qp_num) != 0) {
    if (world().stale_rejects != 0) --world().stale_rejects;
    id.state = State::over;
    tell(id, RDMA_CM_EVENT_REJECTED, kStale, nullptr, 0, kRejectData);
    return 0;
  }
  id.state = State::asking;
  Identifier& server = *make(*listener->events, listener->context, id.ps);
  server.state = State::asked;
  server.listener = listener;
  server.verbs = adapter_of(id.route.addr.dst_addr)->of_manager.get();
  server.port_num = 1;
  copy(server.route.addr.src_addr, id.route.addr.dst_addr);
  copy(server.route.addr.dst_addr, id.route.addr.src_addr);
  server.peer_qp_num = id.qp_num;
  server.retry_count = params->retry_count;
  server.ack_timeout = id.ack_timeout;
  server.tos = id.tos;
  server.peer = &id;
  id.peer = &server;
  tell(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0, params->private_data, params->private_data_len,
       kRequestData);
  return 0;
}

int rdma_accept(rdma_cm_id* given, rdma_conn_param* params) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (id.state != State::asked || id.peer == nullptr) return refuse(EINVAL);
  if (params->private_data_len > kAnswerData) return refuse(EINVAL);
  id.qp_num = params->qp_num;
  id.state = State::accepted;
  id.peer->state = State::answered;
  id.peer->peer_qp_num = id.qp_num;
  id.peer->retry_count = params->retry_count;
  tell(*id.peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, params->private_data, params->private_data_len,
       kAnswerData);
  return 0;
}

static int reject(Identifier& id, int reason, const void* data, std::uint8_t bytes) {
  if (id.state != State::asked || bytes > kRejectData) return refuse(EINVAL);
  id.state = State::over;
  if (id.peer != nullptr) {
    id.peer->state = State::over;
    tell(*id.peer, RDMA_CM_EVENT_REJECTED, reason, data, bytes, kRejectData);
  }
  part(id);
  return 0;
}
int rdma_reject(rdma_cm_id* id, const void* data, std::uint8_t bytes) {
  const std::scoped_lock lock(world().lock);
  return reject(*static_cast<Identifier*>(id), kByConsumer, data, bytes);
}
int rdma_reject_ece(rdma_cm_id* id, const void* data, std::uint8_t bytes) {
  const std::scoped_lock lock(world().lock);
  return reject(*static_cast<Identifier*>(id), kVendorOption, data, bytes);
}

int rdma_establish(rdma_cm_id* given) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (id.state != State::answered || id.peer == nullptr) return refuse(EINVAL);
  id.state = State::up;
  if (world().rtus_to_lose != 0) return --world().rtus_to_lose, 0;
  id.peer->state = State::up;
  tell(*id.peer, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}
int rdma_notify(rdma_cm_id* given, ibv_event_type) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (id.state != State::accepted) return refuse(EISCONN);
  id.state = State::up;
  tell(id, RDMA_CM_EVENT_ESTABLISHED);
  return 0;
}

int rdma_disconnect(rdma_cm_id* given) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (id.state != State::up && id.state != State::left && id.state != State::accepted &&
      id.state != State::answered)
    return refuse(EINVAL);
  Identifier* const peer = id.peer;
  if (id.state == State::left) {  // the answer
    id.state = State::over;
    if (peer != nullptr && peer->state == State::leaving) {
      peer->state = State::over;
      tell(*peer, RDMA_CM_EVENT_DISCONNECTED);
      enter_timewait(*peer);
    }
    enter_timewait(id);
    return 0;
  }
  id.state = State::leaving;
  if (peer == nullptr || peer->state == State::leaving) {
    for (Identifier* one : {&id, peer}) {
      if (one == nullptr) continue;
      one->state = State::over;
      tell(*one, RDMA_CM_EVENT_DISCONNECTED);
      enter_timewait(*one);
    }
    return 0;
  }
  peer->state = State::left;
  tell(*peer, RDMA_CM_EVENT_DISCONNECTED);
  return 0;
}

int rdma_get_cm_event(rdma_event_channel* given, rdma_cm_event** out) {
  auto* channel = static_cast<EventChannel*>(given);
  for (;;) {
    if (!channel->signal.take()) return -1;
    const std::scoped_lock lock(world().lock);
    if (channel->events.empty()) continue;  // what it was about is gone
    *out = channel->events.front();
    channel->events.pop_front();
    // Until its user gives it one of its own, a request counts for its listener.
    auto* id = static_cast<Identifier*>((*out)->id);
    ++id->unacknowledged;
    world().shown.insert(static_cast<ManagerEvent*>(*out));
    return 0;
  }
}
int rdma_ack_cm_event(rdma_cm_event* given) {
  const std::scoped_lock lock(world().lock);
  auto* event = static_cast<ManagerEvent*>(given);
  if (world().shown.erase(event) == 0)
    return world().problem("an event of the manager was acknowledged twice"), -1;
  --static_cast<Identifier*>(event->id)->unacknowledged;
  delete event;
  return 0;
}

}  // extern "C"
