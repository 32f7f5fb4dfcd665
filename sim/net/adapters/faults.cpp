// Faults of adapters, ports, addresses and connections.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "sim/net/adapters/addresses.hpp"
#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {
namespace {

using State = Identifier::State;

bool is_of(const Identifier& id, const Adapter& adapter) {
  return id.verbs != nullptr && static_cast<Context*>(id.verbs)->adapter == &adapter;
}

ibv_async_event event_of(ibv_event_type type, int port = 0) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = port;
  return event;
}

void send_removal_events(const Adapter& adapter) {
  for (const auto& [key, id] : world().numbered) {
    if (!is_of(*id, adapter)) continue;
    id->peer = 0;
    id->state = State::over;
    tell(*id, RDMA_CM_EVENT_DEVICE_REMOVAL);
  }
}

void stop(QueuePair& pair, const Profile& profile) {
  if (profile.flushes_when_taken_out && pair.state != IBV_QPS_RESET) return fail(pair);
  end_sends(pair);
  pair.state = IBV_QPS_ERR;
  pair.sends.clear();
  pair.unheard.clear();
  pair.receives.clear();
}

void raise_on_last_queue_pair_locked(ibv_event_type type) {
  ibv_async_event event = event_of(type);
  event.element.qp = world().last_queue_pair;
  if (event.element.qp != nullptr) raise(*world().last_queue_pair->adapter, event);
}

}  // namespace

void take_out(std::size_t number, Told told) {
  const std::scoped_lock lock(world().lock);
  Adapter& adapter = *world().adapters.at(number);
  adapter.removed = true;
  for (auto& [key, pair] : world().queue_pairs)
    if (pair->adapter == &adapter) stop(*pair, adapter.profile);
  if (told == Told::removal || told == Told::removal_first) send_removal_events(adapter);
  if (told != Told::removal && told != Told::nobody) raise(adapter, event_of(IBV_EVENT_DEVICE_FATAL));
  if (told == Told::fatal_first) send_removal_events(adapter);
  for (Context* context : world().contexts)
    if (context->adapter == &adapter) context->over = true;
  adapter.of_manager->over = true;
  adapter.in_place = told == Told::fatal || told == Told::nobody;
}

void put_back(std::size_t number) {
  const std::scoped_lock lock(world().lock);
  Adapter& adapter = *world().adapters.at(number);
  adapter.removed = adapter.port_down = false;
  if (adapter.in_place) {
    adapter.of_manager->over = false;
    return;
  }
  // Older identifiers still refer to the previous context, which is therefore kept.
  adapter.former.push_back(std::exchange(adapter.of_manager, make_context(adapter)));
}

void fail_over(std::size_t from, std::size_t to) {
  const std::scoped_lock lock(world().lock);
  Adapter& before = *world().adapters.at(from);
  for (const auto& [key, id] : world().numbered) {
    if (!is_of(*id, before) || id->state == State::over || is_any(id->route.addr.src_addr)) continue;
    if (holder_of(id->route.addr.src_addr) == &before) tell(*id, RDMA_CM_EVENT_ADDR_CHANGE);
  }
  std::replace(world().holders.begin(), world().holders.end(), from, to);
}

void change_neighbour(std::size_t number) {
  const std::scoped_lock lock(world().lock);
  const Adapter& adapter = *world().adapters.at(number);
  for (const auto& [key, id] : world().numbered)
    if (id->state == State::up && adapter_of(id->route.addr.dst_addr) == &adapter)
      tell(*id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
}

void set_port(std::size_t number, bool up, int port) {
  const std::scoped_lock lock(world().lock);
  Adapter& adapter = *world().adapters.at(number);
  if (port == 1) adapter.port_down = !up;
  raise(adapter, event_of(up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, port));
  kick_all();
}

void change_gids(std::size_t number) {
  const std::scoped_lock lock(world().lock);
  raise(*world().adapters.at(number), event_of(IBV_EVENT_GID_CHANGE, 1));
}

void raise_on_last_queue_pair(ibv_event_type type) {
  const std::scoped_lock lock(world().lock);
  raise_on_last_queue_pair_locked(type);
}

void fail_last_queue_pair(ibv_event_type type) {
  const std::scoped_lock lock(world().lock);
  raise_on_last_queue_pair_locked(type);
  if (world().last_queue_pair != nullptr) fail(*world().last_queue_pair);
}

void overrun_last_queue() {
  const std::scoped_lock lock(world().lock);
  if (world().last_queue_pair == nullptr) return;
  auto& queue = *static_cast<Queue*>(world().last_queue_pair->send_cq);
  queue.overrun = true;
  ibv_async_event event = event_of(IBV_EVENT_CQ_ERR);
  event.element.cq = &queue;
  raise(*queue.adapter, event);
}

void lose_next_rtu() {
  const std::scoped_lock lock(world().lock);
  ++world().rtus_to_lose;
}

void give_up_handshakes() {
  const std::scoped_lock lock(world().lock);
  for (const auto& [key, id] : world().numbered) {
    if (id->state != State::accepted) continue;
    if (Identifier* const peer = find(id->peer); peer != nullptr && peer->state == State::up) {
      peer->state = State::over;
      peer->peer = 0;
      tell(*peer, RDMA_CM_EVENT_REJECTED, kTimeout);
      enter_timewait(*peer);
    }
    id->peer = 0;
    id->state = State::over;
    tell(*id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
  }
}

void reject_as_stale(unsigned count) {
  const std::scoped_lock lock(world().lock);
  world().stale_rejects += count;
}

void calm() {
  {
    const std::scoped_lock lock(world().lock);
    world().rtus_to_lose = world().stale_rejects = 0;
  }
  end_timewait();
}

std::vector<Wire> wires() {
  const std::scoped_lock lock(world().lock);
  std::vector<Wire> all;
  for (const auto& [key, id] : world().numbered) {
    const auto pair = world().queue_pairs.find(id->qp_num);
    if (id->state == State::up && pair != world().queue_pairs.end())
      all.push_back({pair->second->ack_timeout, pair->second->retries, pair->second->tos,
                     pair->second->min_rnr_timer, id->rnr_asked});
  }
  return all;
}

void enter_timewait(Identifier& id) {
  if (id.verbs == nullptr || !static_cast<Context*>(id.verbs)->adapter->profile.reuses_numbers)
    return tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT);
  id.in_timewait = true;
  world().in_timewait.insert(id.qp_num);
}

void end_timewait() {
  const std::scoped_lock lock(world().lock);
  world().in_timewait.clear();
  for (const auto& [key, id] : world().numbered)
    if (std::exchange(id->in_timewait, false)) tell(*id, RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

}  // namespace rtrs::mock_hca

using namespace rtrs::mock_hca;

extern "C" int rdma_set_option(rdma_cm_id* given, int level, int name, void* value, std::size_t bytes) {
  const std::scoped_lock lock(world().lock);
  auto& id = *static_cast<Identifier*>(given);
  if (level != RDMA_OPTION_ID || bytes != 1 ||
      (name != RDMA_OPTION_ID_TOS && name != RDMA_OPTION_ID_ACK_TIMEOUT))
    return errno = EINVAL, -1;
  if (id.state != State::idle) world().problem("an option was set that the route is without");
  (name == RDMA_OPTION_ID_TOS ? id.tos : id.ack_timeout) = *static_cast<const std::uint8_t*>(value);
  return 0;
}
