// The connection manager: identifiers and their events.
#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/net/adapters/addresses.hpp"
#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {

namespace {

using State = Identifier::State;

using Kind = Message::Kind;

// Default of net.rdma_ucm.max_backlog in Linux; a backlog of 0 means this value.
constexpr int kMaxBacklog = 1024;

bool port_taken(const Identifier& self, std::uint16_t port, const sockaddr& address) {
  return std::any_of(world().identifiers.begin(), world().identifiers.end(), [&](const Identifier* one) {
    const sockaddr& bound = one->route.addr.src_addr;
    if (one == &self || one->events->host != self.events->host) return false;
    if (!one->reserved_port || port_of(bound) != port || bound.sa_family != address.sa_family) return false;
    return is_any(bound) || is_any(address) || same_host(bound, address);
  });
}

std::vector<std::byte> bytes_of(const void* data, std::size_t count) {
  const auto* const from = static_cast<const std::byte*>(data);
  return count == 0 ? std::vector<std::byte>() : std::vector<std::byte>(from, from + count);
}

void joins(Identifier& id, std::uint32_t qp_num) {
  const auto found = world().queue_pairs.find(qp_num);
  id.qp_num = qp_num;
  id.pair = found == world().queue_pairs.end() ? nullptr : found->second;
  if (world().conductor != nullptr) world().conductor->joined(id.number, qp_num);
}

void give_back(Identifier& id) {
  leave(id);
  std::erase_if(id.events->events, [&id](rdma_cm_event* event) {
    if (event->id != &id) return false;
    delete static_cast<ManagerEvent*>(event);
    return true;
  });
  world().identifiers.erase(&id);
  world().numbered.erase(id.number);
  delete &id;
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
  if (world().allocation_fails()) return nullptr;
  auto* channel = new EventChannel;
  channel->fd = channel->signal.fd();
  channel->host = world().host;
  channel->signal.count_in(world().waiting[channel->host]);
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
  if (world().allocation_fails()) return -1;
  Identifier& made = make_identifier(*static_cast<EventChannel*>(channel), context, space);
  *id = &made;
  if (world().conductor != nullptr) world().conductor->made(made.number);
  return 0;
}
int rdma_destroy_id(rdma_cm_id* given) {
  const std::scoped_lock lock(world().lock);
  auto* id = static_cast<Identifier*>(given);
  if (world().identifiers.count(id) == 0) return world().problem("an identifier was given back twice"), -1;
  if (id->unacknowledged != 0)
    world().problem(
        "an identifier was destroyed with unacknowledged events: rdma_destroy_id() would block forever");
  if (id->pair != nullptr) world().problem("an identifier was destroyed before its queue pair");
  // Destroying a listener destroys its unread connect requests.
  std::vector<Identifier*> unread;
  for (const rdma_cm_event* event : id->events->events) {
    auto* const one = static_cast<Identifier*>(event->id);
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST && one->listener == id) unread.push_back(one);
  }
  for (Identifier* one : unread) give_back(*one);
  for (Identifier* one : world().identifiers)
    if (one->listener == id) one->listener = nullptr;
  give_back(*id);
  return 0;
}

int rdma_bind_addr(rdma_cm_id* given, sockaddr* address) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (!is_any(*address) && !is_loopback(*address)) {
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
  id.backlog = backlog <= 0 || backlog > kMaxBacklog ? kMaxBacklog : backlog;
  return 0;
}
std::uint16_t rdma_get_src_port(rdma_cm_id* id) {
  return htons(port_of(id->route.addr.src_addr));
}

int rdma_resolve_addr(rdma_cm_id* given, sockaddr* source, sockaddr* destination, int) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  Conductor* const conductor = world().conductor;
  Adapter* const there = adapter_of(*destination);
  Adapter* const here = source == nullptr ? there : adapter_of(*source);
  if (source != nullptr && here == nullptr) return refuse(EADDRNOTAVAIL);
  copy(id.route.addr.dst_addr, *destination);
  if (there == nullptr && conductor == nullptr) return tell(id, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH), 0;
  const int error = conductor == nullptr ? 0 : conductor->resolve();
  if (error != 0) return tell(id, RDMA_CM_EVENT_ADDR_ERROR, -error), 0;
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
  joins(id, params->qp_num);
  id.rnr_asked = params->rnr_retry_count;
  id.state = State::asking;
  Message request;
  request.kind = Kind::request;
  request.sender = static_cast<const Context*>(id.verbs)->adapter->number;
  request.receiver = number_of(id.route.addr.dst_addr);
  copy(reinterpret_cast<sockaddr&>(request.source), id.route.addr.src_addr);
  copy(reinterpret_cast<sockaddr&>(request.destination), id.route.addr.dst_addr);
  request.queue_pair = id.qp_num;
  request.retry_count = params->retry_count;
  request.ack_timeout = id.ack_timeout;
  request.tos = id.tos;
  request.data = bytes_of(params->private_data, params->private_data_len);
  say(id, std::move(request));
  return 0;
}

int rdma_accept(rdma_cm_id* given, rdma_conn_param* params) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (id.state != State::asked || id.peer == 0) return refuse(EINVAL);
  if (params->private_data_len > kAnswerData) return refuse(EINVAL);
  joins(id, params->qp_num);
  id.rnr_asked = params->rnr_retry_count;
  id.state = State::accepted;
  Message reply;
  reply.kind = Kind::reply;
  reply.queue_pair = id.qp_num;
  reply.retry_count = params->retry_count;
  reply.data = bytes_of(params->private_data, params->private_data_len);
  say(id, std::move(reply));
  return 0;
}

static int reject(Identifier& id, int reason, const void* data, std::uint8_t bytes) {
  if (id.state != State::asked || bytes > kRejectData) return refuse(EINVAL);
  id.state = State::over;
  Message message;
  message.kind = Kind::reject;
  message.reason = reason;
  message.data = bytes_of(data, bytes);
  say(id, std::move(message));
  id.peer = 0;
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
  if (id.state != State::answered || id.peer == 0) return refuse(EINVAL);
  id.state = State::up;
  if (world().rtus_to_lose != 0) return --world().rtus_to_lose, 0;
  Message ready;
  ready.kind = Kind::ready;
  say(id, std::move(ready));
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
  Message message;
  if (id.state == State::left) {  // this call answers the peer's disconnect
    id.state = State::over;
    message.kind = Kind::disconnected;
    say(id, std::move(message));
    enter_timewait(id);
    return 0;
  }
  if (id.state != State::up && id.state != State::accepted && id.state != State::answered)
    return refuse(EINVAL);
  id.state = State::leaving;
  message.kind = Kind::disconnect;
  say(id, std::move(message));
  return 0;
}

int rdma_get_cm_event(rdma_event_channel* given, rdma_cm_event** out) {
  auto* channel = static_cast<EventChannel*>(given);
  for (;;) {
    if (!channel->signal.take()) return -1;
    const std::scoped_lock lock(world().lock);
    if (channel->events.empty()) continue;  // the identifier of the event was destroyed
    *out = channel->events.front();
    channel->events.pop_front();
    // A new connection request counts as an unacknowledged event of its listener until the program assigns an
    // event channel.
    auto* id = static_cast<Identifier*>((*out)->id);
    ++id->unacknowledged;
    if ((*out)->event == RDMA_CM_EVENT_CONNECT_REQUEST) id->request = ++channel->requests_shown;
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
