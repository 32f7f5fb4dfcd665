// Adapters, the contexts that programs open, and asynchronous events.
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

#include "sim/net/adapters/addresses.hpp"
#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {

Signal::Signal() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}
Signal::~Signal() {
  if (waiting_ != nullptr) *waiting_ -= count_;
  ::close(fd_);
}
void Signal::give() noexcept {
  ++count_;
  if (waiting_ != nullptr) ++*waiting_;
  ::eventfd_write(fd_, 1);
}
bool Signal::take() noexcept {
  eventfd_t one = 0;
  if (::eventfd_read(fd_, &one) != 0) return false;
  --count_;
  if (waiting_ != nullptr) --*waiting_;
  return true;
}

World& world() {
  static World one;
  return one;
}

std::uint64_t clock_now() {
  if (world().conductor != nullptr) return world().conductor->time();
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

bool is_over(const ibv_context* context) {
  return static_cast<const Context*>(context)->over;
}

bool World::allocation_fails(const ibv_context* context) {
  if (!is_over(context)) return allocation_fails();
  errno = EIO;
  return true;
}

int World::given_back(const ibv_context* context) {
  if (!is_over(context) || destroys_without_device.value_or(false)) return 0;
  ++static_cast<const Context*>(context)->adapter->leaked;
  return EIO;
}

MemoryRegion* World::region(const ibv_pd* domain, std::uint32_t key) const {
  const auto found = regions.find({static_cast<const Context*>(domain->context)->adapter, key});
  return found == regions.end() || found->second->pd != protection_of(domain) ? nullptr : found->second;
}

bool World::allocation_fails() {
  if (conductor != nullptr && conductor->allocation_fails()) return errno = ENOMEM, true;
  if (shortage_count == 0) return false;
  if (shortage_after != 0) {
    --shortage_after;
    return false;
  }
  --shortage_count;
  errno = ENOMEM;
  return true;
}

void raise(Adapter& adapter, const ibv_async_event& event) {
  for (Context* one : world().contexts) {
    if (one->adapter != &adapter || one->over) continue;
    const bool of_queue_pair =
        event.event_type == IBV_EVENT_QP_FATAL || event.event_type == IBV_EVENT_QP_REQ_ERR ||
        event.event_type == IBV_EVENT_QP_ACCESS_ERR || event.event_type == IBV_EVENT_COMM_EST;
    if (of_queue_pair && event.element.qp->context != one) continue;
    if (event.event_type == IBV_EVENT_CQ_ERR && event.element.cq->context != one) continue;
    if (world().hostile) {
      one->held.push_back(event);
      continue;
    }
    one->events.push_back(event);
    one->signal.give();
  }
}

namespace {

bool of_one_object(const ibv_async_event& a, const ibv_async_event& b) {
  const bool ports = unacknowledged_of(a) == nullptr && unacknowledged_of(b) == nullptr;
  return ports ? a.element.port_num == b.element.port_num : a.element.qp == b.element.qp;
}

}  // namespace

void deliver_held_events() {
  for (Context* one : world().contexts) {
    while (!one->held.empty() && world().pick(3) != 0) {
      const ibv_async_event event = one->held.front();
      one->held.pop_front();
      put(one->events, event,
          [&event](const ibv_async_event& before) { return of_one_object(before, event); });
      one->signal.give();
    }
  }
}

unsigned* unacknowledged_of(const ibv_async_event& event) {
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
      return &static_cast<QueuePair*>(event.element.qp)->unacknowledged;
    case IBV_EVENT_CQ_ERR:
      return &static_cast<Queue*>(event.element.cq)->unacknowledged;
    default:
      return nullptr;
  }
}

void forget_events(Adapter& adapter, const void* object) {
  for (Context* one : world().contexts) {
    if (one->adapter != &adapter) continue;
    for (auto* events : {&one->events, &one->held})
      std::erase_if(*events, [object](const ibv_async_event& event) {
        return unacknowledged_of(event) != nullptr &&
               (event.element.qp == object || static_cast<const void*>(event.element.cq) == object);
      });
  }
}

std::unique_ptr<Context> make_context(Adapter& adapter) {
  auto context = std::make_unique<Context>();
  context->adapter = &adapter;
  context->device = &adapter.device;
  context->async_fd = context->signal.fd();
  context->signal.count_in(world().waiting[adapter.host]);
  context->cmd_fd = -1;
  context->num_comp_vectors = adapter.profile.vectors;
  context->ops.alloc_mw = alloc_mw;
  context->ops.dealloc_mw = dealloc_mw;
  context->ops.bind_mw = bind_mw;
  context->ops.poll_cq = poll_cq;
  context->ops.req_notify_cq = req_notify_cq;
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  if (adapter.profile.thread_domains) offer_thread_domains(*context);
  if (adapter.profile.calls != 0) offer_calls(*context);
  return context;
}

namespace {

std::unique_ptr<Adapter> make_adapter(const Profile& profile, std::size_t number) {
  auto adapter = std::make_unique<Adapter>();
  adapter->profile = profile;
  adapter->number = number;
  adapter->device.node_type = IBV_NODE_CA;
  adapter->device.transport_type = IBV_TRANSPORT_IB;
  std::strncpy(adapter->device.name, profile.name.c_str(), sizeof adapter->device.name - 1);
  std::strncpy(adapter->device.dev_name, ("mock-" + profile.name).c_str(),
               sizeof adapter->device.dev_name - 1);
  adapter->of_manager = make_context(*adapter);
  return adapter;
}

}  // namespace

std::size_t objects() {
  const std::scoped_lock lock(world().lock);
  const World& all = world();
  std::size_t leaked = 0;
  for (const auto& one : all.adapters) leaked += one->leaked;
  return all.contexts.size() + all.domains.size() + all.thread_domains.size() + all.channels.size() +
         all.queues.size() + all.event_channels.size() + all.identifiers.size() + all.regions.size() +
         all.windows.size() + all.queue_pairs.size() + leaked;
}

Held held(std::size_t number) {
  const std::scoped_lock lock(world().lock);
  const Adapter* const adapter = world().adapters.at(number).get();
  const auto of_it = [adapter](const ibv_context* context) {
    return static_cast<const Context*>(context)->adapter == adapter;
  };
  Held found;
  for (const Context* one : world().contexts) found.contexts += of_it(one) ? 1 : 0;
  for (const Window* one : world().windows) found.windows += of_it(one->context) ? 1 : 0;
  for (const Window* one : world().windows)
    if (of_it(one->context)) found.access |= one->access;
  for (const auto& [number_of_it, one] : world().queue_pairs)
    if (of_it(one->context)) found.access |= one->access;
  std::set<int> vectors;
  for (const Queue* one : world().queues)
    if (of_it(one->context)) vectors.insert(one->vector);
  found.vectors = vectors.size();
  for (const auto& [key, one] : world().regions) {
    if (!of_it(one->context)) continue;
    ++found.regions;
    found.bytes += one->length;
    found.access |= static_cast<unsigned>(one->access);
    found.writable += (one->access & IBV_ACCESS_REMOTE_WRITE) != 0 ? 1 : 0;
  }
  return found;
}

Counts counts(std::size_t adapter) {
  const std::scoped_lock lock(world().lock);
  return world().adapters.at(adapter)->counts;
}

std::size_t relaxed_registrations() {
  const std::scoped_lock lock(world().lock);
  std::size_t count = 0;
  for (const auto& [key, region] : world().regions)
    count += (region->access & IBV_ACCESS_RELAXED_ORDERING) != 0 ? 1 : 0;
  return count;
}

void reset(const std::vector<Profile>& profiles, std::uint64_t seed) {
  const std::size_t left = objects();
  const std::scoped_lock lock(world().lock);
  World& all = world();
  if (left != 0) all.problem(std::to_string(left) + " objects were leaked");
  // Objects that were not destroyed still refer to their adapters, which are therefore kept.
  if (left != 0) std::move(all.adapters.begin(), all.adapters.end(), std::back_inserter(all.former));
  all.adapters.clear();
  all.answered.clear();
  all.severed.clear();
  all.host = 0;
  if (left == 0) all.next_identifier = 1;
  all.next_queue_pair = 17;
  all.next_port = 40000;
  all.shortage_after = all.shortage_count = 0;
  all.rtus_to_lose = all.stale_rejects = 0;
  all.batch_refusal = 0;
  all.in_timewait.clear();
  all.destroys_without_device.reset();
  all.holders.clear();
  all.chance.seed(seed);
  all.hostile = std::any_of(profiles.begin(), profiles.end(), [](const Profile& one) { return one.hostile; });
  for (const Profile& profile : profiles) {
    all.holders.push_back(all.adapters.size());
    all.adapters.push_back(make_adapter(profile, all.adapters.size()));
  }
}

std::size_t add_adapter(const Profile& profile, unsigned host) {
  const std::scoped_lock lock(world().lock);
  const std::size_t number = world().adapters.size();
  world().holders.push_back(number);
  world().adapters.push_back(make_adapter(profile, number));
  world().adapters.back()->host = host;
  return number;
}

std::vector<std::string> problems() {
  const std::scoped_lock lock(world().lock);
  world().has_problems = false;
  return std::exchange(world().problems, {});
}

void fail_creations(unsigned skip, unsigned count) {
  const std::scoped_lock lock(world().lock);
  world().shortage_after = skip;
  world().shortage_count = world().shortage_wanted = count;
}
bool creation_failed() {
  const std::scoped_lock lock(world().lock);
  return world().shortage_count != world().shortage_wanted;
}

}  // namespace rtrs::mock_hca

using namespace rtrs::mock_hca;
#undef ibv_query_port

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  const std::scoped_lock lock(world().lock);
  if (!world().destroys_without_device) {
    const char* const said = std::getenv("RDMAV_ALLOW_DISASSOC_DESTROY");
    world().destroys_without_device = said != nullptr && std::strcmp(said, "0") != 0;
  }
  auto** list = new ibv_device* [world().adapters.size() + 1] {};
  int found = 0;
  for (const auto& one : world().adapters)
    if (!one->removed && one->host == world().host) list[found++] = &one->device;
  if (count != nullptr) *count = found;
  return list;
}
void ibv_free_device_list(ibv_device** list) {
  delete[] list;
}
const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

ibv_context* ibv_open_device(ibv_device* device) {
  const std::scoped_lock lock(world().lock);
  if (world().allocation_fails()) return nullptr;
  for (const auto& one : world().adapters) {
    if (&one->device != device || one->removed) continue;
    Context* context = make_context(*one).release();
    world().contexts.insert(context);
    return context;
  }
  errno = ENODEV;
  return nullptr;
}
int ibv_close_device(ibv_context* context) {
  const std::scoped_lock lock(world().lock);
  auto* one = static_cast<Context*>(context);
  if (world().contexts.erase(one) == 0) return world().problem("a device was closed twice"), EINVAL;
  for (const Domain* domain : world().domains)
    if (domain->context == context) world().problem("a device was closed before its domain");
  for (const Channel* channel : world().channels)
    if (channel->context == context) world().problem("a device was closed before its completion channel");
  delete one;
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const Profile& profile = static_cast<Context*>(context)->adapter->profile;
  if (is_over(context)) return EIO;
  *attributes = {};
  attributes->vendor_id = profile.vendor;
  attributes->vendor_part_id = profile.part;
  attributes->max_qp_wr = static_cast<int>(profile.max_qp_wr);
  attributes->max_sge = profile.max_sge;
  attributes->max_cqe = profile.max_cqe;
  attributes->max_mr_size = ~std::uint64_t{0};
  attributes->max_qp = attributes->max_cq = attributes->max_mr = attributes->max_mw = 1 << 20;
  attributes->phys_port_cnt = 1;
  unsigned flags = 0;
  if (profile.send_invalidate) flags |= IBV_DEVICE_MEM_MGT_EXTENSIONS;
  if (profile.windows_type_1) flags |= IBV_DEVICE_MEM_WINDOW;
  if (profile.windows_type_2b) flags |= IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  attributes->device_cap_flags = flags;
  return 0;
}
int ibv_query_port(ibv_context* context, std::uint8_t, _compat_ibv_port_attr* attributes) {
  auto& port = *reinterpret_cast<ibv_port_attr*>(attributes);
  if (is_over(context)) return EIO;
  port.state = static_cast<Context*>(context)->adapter->port_down ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
  port.max_msg_sz = static_cast<Context*>(context)->adapter->profile.max_message;
  port.link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}
// GID index 0 is link-local, 1 is IPv4, 2 is IPv6.
int ibv_query_gid(ibv_context* context, std::uint8_t, int index, ibv_gid* gid) {
  std::memset(gid, 0, sizeof *gid);
  const auto addresses = addresses_of(*static_cast<Context*>(context)->adapter);
  if (index == 0) {
    gid->raw[0] = 0xfe;
    gid->raw[1] = 0x80;
  } else if (index == 1) {
    gid->raw[10] = gid->raw[11] = 0xff;
    std::memcpy(gid->raw + 12, &reinterpret_cast<const sockaddr_in*>(&addresses[0])->sin_addr, 4);
  } else if (index == 2) {
    std::memcpy(gid->raw, &reinterpret_cast<const sockaddr_in6*>(&addresses[1])->sin6_addr, 16);
  }
  return 0;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  auto* one = static_cast<Context*>(context);
  for (;;) {
    if (!one->signal.take()) return -1;
    const std::scoped_lock lock(world().lock);
    if (one->events.empty()) continue;  // the object of the event was destroyed
    *event = one->events.front();
    one->events.pop_front();
    if (unsigned* const count = unacknowledged_of(*event)) ++*count;
    return 0;
  }
}
void ibv_ack_async_event(ibv_async_event* event) {
  const std::scoped_lock lock(world().lock);
  if (unsigned* const count = unacknowledged_of(*event)) --*count;
}

}  // extern "C"
