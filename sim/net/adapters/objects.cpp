// Completion queues, completion channels, protection domains, parent domains and regions.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {

namespace {

// Sends of a queue pair complete in order, and so do its receives.
void put(std::deque<Entry>& entries, const Entry& one) {
  put(entries, one, [&one](const Entry& before) {
    return before.of == one.of &&
           (before.completion.opcode & IBV_WC_RECV) == (one.completion.opcode & IBV_WC_RECV);
  });
}

void arrive(Queue& queue) {
  for (const Entry& entry : queue.late[0]) put(queue.entries, entry);
  queue.late[0].clear();
  std::swap(queue.late[0], queue.late[1]);
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* wanted) {
  const std::scoped_lock lock(world().lock);
  if (wanted == nullptr || wanted->comp_mask != 0) return errno = EINVAL, nullptr;
  if (world().allocation_fails(context)) return nullptr;
  auto* thread = new ThreadDomain;
  thread->context = context;
  world().thread_domains.insert(thread);
  return thread;
}

int dealloc_td(ibv_td* one) {
  const std::scoped_lock lock(world().lock);
  auto* thread = static_cast<ThreadDomain*>(one);
  if (thread->users != 0) {
    world().problem("a thread domain was given back with " + std::to_string(thread->users) +
                    " domains over it");
    return EBUSY;
  }
  world().thread_domains.erase(thread);
  const int answer = world().given_back(one->context);
  delete thread;
  return answer;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* wanted) {
  const std::scoped_lock lock(world().lock);
  if (wanted == nullptr || wanted->pd == nullptr || wanted->comp_mask != 0) return errno = EINVAL, nullptr;
  if (world().allocation_fails(context)) return nullptr;
  auto* domain = new Domain;
  domain->context = context;
  domain->within = static_cast<Domain*>(wanted->pd);
  ++domain->within->users;
  domain->thread = static_cast<ThreadDomain*>(wanted->td);
  if (domain->thread != nullptr) ++domain->thread->users;
  world().domains.insert(domain);
  return domain;
}

}  // namespace

void offer_thread_domains(Context& context) {
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  verbs_context* const extension = verbs_get_ctx(&context);
  extension->sz = sizeof(verbs_context);
  extension->alloc_td = alloc_td;
  extension->dealloc_td = dealloc_td;
  extension->alloc_parent_domain = alloc_parent_domain;
}

void leave_parents(Domain& domain) {
  if (domain.within != nullptr) --domain.within->users;
  if (domain.thread != nullptr) --domain.thread->users;
}

const ibv_pd* protection_of(const ibv_pd* domain) {
  const Domain* const within = static_cast<const Domain*>(domain)->within;
  return within == nullptr ? domain : within;
}

std::size_t queue_pairs_of_threads() {
  const std::scoped_lock lock(world().lock);
  const auto& pairs = world().queue_pairs;
  return static_cast<std::size_t>(std::count_if(pairs.begin(), pairs.end(), [](const auto& one) {
    return static_cast<const Domain*>(one.second->pd)->thread != nullptr;
  }));
}

void complete(Queue& queue, const Entry& entry) {
  if (queue.overrun) return;
  if (queue.entries.size() + queue.late[0].size() + queue.late[1].size() ==
      static_cast<std::size_t>(queue.cqe)) {
    world().problem("a completion queue of " + std::to_string(queue.cqe) + " entries was overrun");
    queue.overrun = true;
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = &queue;
    return raise(*queue.adapter, event);
  }
  if (!std::exchange(queue.armed, false) || queue.via == nullptr) {
    put(queue.late[1], entry);
    return;
  }
  put(queue.entries, entry);
  queue.via->ready.push_back(&queue);
  queue.via->signal.give();
}

int poll_cq(ibv_cq* cq, int count, ibv_wc* out) {
  const std::scoped_lock lock(world().lock);
  auto& queue = *static_cast<Queue*>(cq);
  if (world().queues.count(&queue) == 0)
    return world().problem("a completion queue that is gone was read"), -1;
  // A real library takes a queue pair's lock when it reads an error completion of this queue pair. A
  // poll may read completions of every queue pair that uses the completion queue, so none of these may have
  // an open batch.
  for (const auto& [number, pair] : world().queue_pairs)
    if (pair->send_cq == cq || pair->recv_cq == cq) check_no_batch(*pair, "ibv_poll_cq()");
  if (world().hostile) kick_all();
  int taken = 0;
  ++queue.adapter->counts.polls;
  for (; taken < count && !queue.entries.empty(); ++taken) {
    const auto [completion, of, number] = queue.entries.front();
    queue.entries.pop_front();
    ++queue.adapter->counts.completions;
    out[taken] = completion;
    const auto found = world().queue_pairs.find(completion.qp_num);
    if (found == world().queue_pairs.end() || found->second != of) continue;
    QueuePair& pair = *found->second;
    if ((completion.opcode & IBV_WC_RECV) != 0) {
      // Receives that were posted before a reset are not counted as held.
      if (pair.held_receives != 0) --pair.held_receives;
      continue;
    }
    pair.released = std::max(pair.released, number + 1);
  }
  arrive(queue);
  return taken;
}

int req_notify_cq(ibv_cq* cq, int) {
  const std::scoped_lock lock(world().lock);
  auto& queue = *static_cast<Queue*>(cq);
  if (is_over(cq->context)) return EIO;
  ++queue.adapter->counts.arms;
  arrive(queue);
  arrive(queue);
  queue.armed = true;
  return 0;
}

}  // namespace rtrs::mock_hca

using namespace rtrs::mock_hca;
#undef ibv_reg_mr

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  const std::scoped_lock lock(world().lock);
  if (world().allocation_fails(context)) return nullptr;
  auto* domain = new Domain;
  domain->context = context;
  world().domains.insert(domain);
  return domain;
}
int ibv_dealloc_pd(ibv_pd* pd) {
  const std::scoped_lock lock(world().lock);
  auto* domain = static_cast<Domain*>(pd);
  if (domain->users != 0) {
    world().problem("a domain was given back with " + std::to_string(domain->users) + " objects in it");
    return EBUSY;
  }
  leave_parents(*domain);
  world().domains.erase(domain);
  const int answer = world().given_back(pd->context);
  delete domain;
  return answer;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* memory, std::size_t bytes, std::uint64_t, unsigned access) {
  const std::scoped_lock lock(world().lock);
  if (world().allocation_fails(pd->context)) return nullptr;
  auto* region = new MemoryRegion;
  region->context = pd->context;
  region->pd = pd;
  region->addr = memory;
  region->length = bytes;
  region->access = static_cast<int>(access);
  Adapter* const adapter = static_cast<Context*>(pd->context)->adapter;
  region->lkey = region->rkey = adapter->next_key++ << 8;
  world().regions[{adapter, region->lkey}] = region;
  ++static_cast<Domain*>(pd)->users;
  return region;
}
ibv_mr* ibv_reg_mr(ibv_pd* pd, void* memory, std::size_t bytes, int access) {
  return ibv_reg_mr_iova2(pd, memory, bytes, 0, static_cast<unsigned>(access));
}
int ibv_dereg_mr(ibv_mr* mr) {
  const std::scoped_lock lock(world().lock);
  auto* region = static_cast<MemoryRegion*>(mr);
  if (region->windows != 0) {
    world().problem("a registration was undone with windows bound to it");
    return EBUSY;
  }
  world().regions.erase({static_cast<Context*>(region->context)->adapter, region->lkey});
  --static_cast<Domain*>(region->pd)->users;
  const int answer = world().given_back(mr->context);
  delete region;
  return answer;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const std::scoped_lock lock(world().lock);
  if (world().allocation_fails(context)) return nullptr;
  auto* channel = new Channel;
  channel->context = context;
  channel->fd = channel->signal.fd();
  channel->signal.count_in(world().waiting[static_cast<const Context*>(context)->adapter->host]);
  channel->refcnt = 0;
  world().channels.insert(channel);
  return channel;
}
int ibv_destroy_comp_channel(ibv_comp_channel* given) {
  const std::scoped_lock lock(world().lock);
  auto* channel = static_cast<Channel*>(given);
  if (channel->refcnt != 0)
    return world().problem("a completion channel was given back before its queues"), EBUSY;
  world().channels.erase(channel);
  delete channel;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* owner, ibv_comp_channel* channel, int vector) {
  const std::scoped_lock lock(world().lock);
  Adapter& adapter = *static_cast<Context*>(context)->adapter;
  // A program must query the device limits before it creates a queue.
  if (entries > adapter.profile.max_cqe || vector < 0 || vector >= adapter.profile.vectors)
    world().problem("a completion queue was requested that exceeds the device limits");
  if (entries < 1 || entries > adapter.profile.max_cqe || vector < 0 || vector >= adapter.profile.vectors)
    return errno = EINVAL, nullptr;
  if (world().allocation_fails(context)) return nullptr;
  auto* queue = new Queue;
  queue->adapter = &adapter;
  queue->context = context;
  queue->cq_context = owner;
  queue->cqe = entries;
  queue->vector = vector;
  queue->channel = channel;
  queue->via = static_cast<Channel*>(channel);
  if (channel != nullptr) ++channel->refcnt;
  world().queues.insert(queue);
  return queue;
}
int ibv_destroy_cq(ibv_cq* cq) {
  const std::scoped_lock lock(world().lock);
  auto* queue = static_cast<Queue*>(cq);
  if (queue->unacknowledged != 0)
    world().problem(
        "a completion queue was given back with events that nobody acknowledged: the call would wait for "
        "ever");
  for (const auto& [number, pair] : world().queue_pairs)
    if (pair->send_cq == cq || pair->recv_cq == cq)
      return world().problem("a completion queue was given back before its queue pair"), EBUSY;
  if (queue->via != nullptr) {
    std::erase(queue->via->ready, queue);
    --queue->via->refcnt;
  }
  forget_events(*queue->adapter, cq);
  world().queues.erase(queue);
  const int answer = world().given_back(cq->context);
  delete queue;
  return answer;
}

int ibv_get_cq_event(ibv_comp_channel* given, ibv_cq** cq, void** owner) {
  auto* channel = static_cast<Channel*>(given);
  for (;;) {
    if (!channel->signal.take()) return -1;
    const std::scoped_lock lock(world().lock);
    if (channel->ready.empty()) continue;  // the completion queue was destroyed
    *cq = channel->ready.front();
    *owner = (*cq)->cq_context;
    channel->ready.pop_front();
    ++static_cast<Queue*>(*cq)->unacknowledged;
    return 0;
  }
}
void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  const std::scoped_lock lock(world().lock);
  auto& queue = *static_cast<Queue*>(cq);
  if (count > queue.unacknowledged)
    return world().problem("more events of a completion queue were acknowledged than there were");
  queue.unacknowledged -= count;
}

}  // extern "C"
