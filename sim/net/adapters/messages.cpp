// Messages between the two ends of a connection, and the resulting states of their identifiers.
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

// Finds the server's end by the client's identifier: until a client has an answer, its messages cannot name
// the other end.
Identifier* server_of(std::uint32_t client) {
  for (const auto& [number, one] : world().numbered)
    if (one->of_server && one->peer == client) return one;
  return nullptr;
}

Identifier* listener_for(const sockaddr& address, unsigned host) {
  const Adapter* const here = adapter_of(address);
  Identifier* any = nullptr;
  for (const auto& [number, one] : world().numbered) {
    const sockaddr& bound = one->route.addr.src_addr;
    if (one->events->host != host || one->state != State::listening || port_of(bound) != port_of(address))
      continue;
    // A listener belongs to the adapter that owned its address when it was bound.
    if (one->verbs != nullptr && (here == nullptr || one->verbs != here->of_manager.get())) continue;
    if (same_host(bound, address)) return one;
    // A listener on the IPv6 wildcard address also accepts IPv4.
    if (is_any(bound) && (bound.sa_family == address.sa_family || bound.sa_family == AF_INET6)) any = one;
  }
  return any;
}

Message answer_to(const Message& to, Kind kind, int reason = 0) {
  Message message;
  message.kind = kind;
  message.from = to.to;
  message.to = to.from;
  message.sender = to.receiver;
  message.receiver = to.sender;
  message.reason = reason;
  return message;
}

// Sends a reply that the kernel sends even if the identifier no longer exists.
void reply(const Message& message) {
  if (world().conductor != nullptr) return world().conductor->sent(message);
  hear(message);
}

void receive_request(const Message& message) {
  if (server_of(message.from) != nullptr) return;  // a duplicate request
  const auto& address = reinterpret_cast<const sockaddr&>(message.destination);
  Adapter& here = *world().adapters[message.receiver];
  const auto said = world().answered.find({here.host, message.from});
  if (said != world().answered.end()) {
    if (said->second.kind == Kind::none) return;  // the client has withdrawn the request
    const bool rejected = said->second.kind == Kind::reject;
    Message again = answer_to(message, Kind::reject, rejected ? said->second.reason : kStale);
    if (rejected) again.data = said->second.data;
    return reply(again);
  }
  Identifier* const listener = listener_for(address, here.host);
  const auto of_listener = [listener](const Identifier* one) {
    return one->listener == listener && one->state == State::asked;
  };
  if (listener == nullptr ||
      std::count_if(world().identifiers.begin(), world().identifiers.end(), of_listener) >= listener->backlog)
    return reply(answer_to(message, Kind::reject, kNoSuchService));
  if (world().stale_rejects != 0 || world().in_timewait.count(message.queue_pair) != 0) {
    if (world().stale_rejects != 0) --world().stale_rejects;
    return reply(answer_to(message, Kind::reject, kStale));
  }
  Identifier& server = make_identifier(*listener->events, listener->context, listener->ps);
  world().answered[{here.host, message.from}] = {};
  server.state = State::asked;
  server.listener = listener;
  server.of_server = true;
  server.verbs = here.of_manager.get();
  server.port_num = 1;
  copy(server.route.addr.src_addr, address);
  copy(server.route.addr.dst_addr, reinterpret_cast<const sockaddr&>(message.source));
  server.peer = message.from;
  server.peer_qp_num = message.queue_pair;
  server.retry_count = message.retry_count;
  server.ack_timeout = message.ack_timeout;
  server.tos = message.tos;
  tell(server, RDMA_CM_EVENT_CONNECT_REQUEST, 0, message.data, kRequestData);
}

void receive_reply(Identifier& id, const Message& message) {
  if (id.state == State::up && id.peer == message.from) {  // the RTU was lost
    Message ready;
    ready.kind = Kind::ready;
    return say(id, std::move(ready));
  }
  if (id.state != State::asking) return;
  id.state = State::answered;
  id.peer = message.from;
  id.peer_qp_num = message.queue_pair;
  id.retry_count = message.retry_count;
  tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, message.data, kAnswerData);
}

void receive_reject(Identifier& id, const Message& message) {
  if (id.state != State::asking && id.state != State::asked && id.state != State::answered &&
      id.state != State::accepted && id.state != State::up)
    return;
  const bool was_up = std::exchange(id.state, State::over) == State::up;
  id.peer = 0;
  tell(id, RDMA_CM_EVENT_REJECTED, message.reason, message.data,
       message.reason == kByConsumer && message.data.empty() && id.of_server ? 0 : kRejectData);
  if (was_up) enter_timewait(id);
}

void receive_disconnect(Identifier& id, const Message& message) {
  switch (id.state) {
    case State::up:
    case State::accepted:
    case State::answered:
      id.state = State::left;
      return tell(id, RDMA_CM_EVENT_DISCONNECTED);
    case State::leaving:  // both ends disconnected at the same time
      id.state = State::over;
      reply(answer_to(message, Kind::disconnected));
      tell(id, RDMA_CM_EVENT_DISCONNECTED);
      return enter_timewait(id);
    case State::over:
      return reply(answer_to(message, Kind::disconnected));
    default:
      return;
  }
}

}  // namespace

Identifier* find(std::uint32_t number) {
  const auto found = world().numbered.find(number);
  return found == world().numbered.end() ? nullptr : found->second;
}

void tell(Identifier& id, rdma_cm_event_type type, int status, std::span<const std::byte> data,
          std::uint8_t field) {
  auto* event = new ManagerEvent;
  std::memset(static_cast<rdma_cm_event*>(event), 0, sizeof(rdma_cm_event));
  event->id = &id;
  event->event = type;
  event->status = status;
  if (field != 0) {
    std::copy(data.begin(), data.end(), event->data.begin());
    event->param.conn.private_data = event->data.data();
    event->param.conn.private_data_len = field;
  }
  put<rdma_cm_event*>(id.events->events, event,
                      [&id](const rdma_cm_event* before) { return before->id == &id; });
  id.events->signal.give();
}

Identifier& make_identifier(EventChannel& events, void* context, rdma_port_space space) {
  auto* id = new Identifier;
  std::memset(static_cast<rdma_cm_id*>(id), 0, sizeof(rdma_cm_id));
  id->channel = id->events = &events;
  id->context = context;
  id->ps = space;
  id->number = world().next_identifier++;
  world().identifiers.insert(id);
  world().numbered[id->number] = id;
  return *id;
}

void say(Identifier& id, Message message) {
  message.from = id.number;
  message.to = id.peer;
  if (id.of_server && message.kind != Kind::ready) world().answered[{id.events->host, id.peer}] = message;
  if (message.kind != Kind::request) {
    message.sender = static_cast<const Context*>(id.verbs)->adapter->number;
    message.receiver = number_of(id.route.addr.dst_addr);
  }
  if (message.kind == Kind::request || message.kind == Kind::reply || message.kind == Kind::disconnect)
    id.last = message;
  if (world().conductor == nullptr) return hear(message);
  if (world().severed.count(id.events->host) == 0) world().conductor->sent(message);
}

void hear(const Message& message) {
  if (message.kind == Kind::request) return receive_request(message);
  Identifier* const id = message.to == 0 ? server_of(message.from) : find(message.to);
  if (id == nullptr) {
    // The identifier was destroyed: the kernel answers.
    if (message.kind == Kind::disconnect) reply(answer_to(message, Kind::disconnected));
    if (message.kind == Kind::reply) reply(answer_to(message, Kind::reject, kByConsumer));
    return;
  }
  switch (message.kind) {
    case Kind::reply:
      return receive_reply(*id, message);
    case Kind::ready:
      if (std::exchange(id->state, id->state == State::accepted ? State::up : id->state) == State::accepted)
        tell(*id, RDMA_CM_EVENT_ESTABLISHED);
      return;
    case Kind::reject:
      return receive_reject(*id, message);
    case Kind::disconnect:
      return receive_disconnect(*id, message);
    case Kind::disconnected:
      if (std::exchange(id->state, State::over) != State::leaving) return;
      tell(*id, RDMA_CM_EVENT_DISCONNECTED);
      return enter_timewait(*id);
    default:
      return;
  }
}

void leave(Identifier& id) {
  Message message;
  if (id.state == State::asking || id.state == State::asked || id.state == State::answered ||
      id.state == State::accepted) {
    message.kind = Kind::reject;
    message.reason = kByConsumer;
  } else if (id.state == State::up) {
    message.kind = Kind::disconnect;
  } else if (id.state == State::left) {
    message.kind = Kind::disconnected;
  }
  id.state = State::over;
  if (message.kind != Kind::none) say(id, std::move(message));
}

void deliver(const Message& message) {
  const std::scoped_lock lock(world().lock);
  const unsigned host = world().adapters[message.receiver]->host;
  if (world().severed.count(host) == 0) return hear(message);
  // The process was killed: the kernel answers that there is no such service.
  if (message.kind == Kind::request) reply(answer_to(message, Kind::reject, kNoSuchService));
  if (message.kind == Kind::disconnect) reply(answer_to(message, Kind::disconnected));
}

bool waits_for_answer(std::uint32_t number, Kind kind) {
  const std::scoped_lock lock(world().lock);
  const Identifier* const id = find(number);
  if (id == nullptr || world().severed.count(id->events->host) != 0) return false;
  return (kind == Kind::request && id->state == State::asking) ||
         (kind == Kind::reply && id->state == State::accepted) ||
         (kind == Kind::disconnect && id->state == State::leaving);
}

void resend_last(std::uint32_t number) {
  const std::scoped_lock lock(world().lock);
  if (const Identifier* const id = find(number)) world().conductor->sent(id->last);
}

void unanswered(std::uint32_t number) {
  const std::scoped_lock lock(world().lock);
  Identifier* const id = find(number);
  if (id == nullptr) return;
  const bool leaves = id->state == State::leaving;
  id->state = State::over;
  tell(*id, leaves ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  if (leaves) enter_timewait(*id);
}

}  // namespace rtrs::mock_hca
