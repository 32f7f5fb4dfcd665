// Hosts and the conductor.
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>

#include "sim/net/adapters/addresses.hpp"
#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {

void conduct(Conductor* one) {
  const std::scoped_lock lock(world().lock);
  world().conductor = one;
}

void on_host(unsigned host) {
  world().host = host;
}

std::string address_of(std::size_t number) {
  return "192.0.2." + std::to_string(number + 1);
}

std::uint32_t identifier_of_request(unsigned host, std::uint32_t request) {
  const std::scoped_lock lock(world().lock);
  for (const auto& [number, one] : world().numbered)
    if (one->request == request && one->events->host == host) return number;
  return 0;
}

std::uint32_t peer_of(std::uint32_t identifier) {
  const std::scoped_lock lock(world().lock);
  const auto found = world().numbered.find(identifier);
  return found == world().numbered.end() ? 0 : found->second->peer;
}

bool readable(unsigned host) {
  const std::scoped_lock lock(world().lock);
  const auto& all = world().waiting;
  const auto found = all.find(host);
  return found != all.end() && found->second != 0;
}

std::size_t objects(unsigned host) {
  const std::scoped_lock lock(world().lock);
  const World& all = world();
  const auto of_host = [host](const auto* one) {
    return static_cast<const Context*>(one->context)->adapter->host == host;
  };
  const auto of_channel = [host](const EventChannel& one) { return one.host == host; };
  const auto held = [](const auto& them, const auto& which) {
    return static_cast<std::size_t>(std::count_if(them.begin(), them.end(), which));
  };
  std::size_t leaked = 0;
  for (const auto& one : all.adapters) leaked += one->host == host ? one->leaked : 0;
  return leaked + held(all.contexts, [host](const Context* one) { return one->adapter->host == host; }) +
         held(all.domains, of_host) + held(all.channels, of_host) + held(all.queues, of_host) +
         held(all.windows, of_host) + held(all.thread_domains, of_host) +
         held(all.regions, [&](const auto& one) { return of_host(one.second); }) +
         held(all.queue_pairs, [&](const auto& one) { return of_host(one.second); }) +
         held(all.event_channels, [&](const EventChannel* one) { return of_channel(*one); }) +
         held(all.identifiers, [&](const Identifier* one) { return of_channel(*one->events); });
}

void kill_host(unsigned host, bool orderly) {
  const std::scoped_lock lock(world().lock);
  if (orderly) {
    for (const auto& [number, one] : world().numbered)
      if (one->events->host == host) leave(*one);
  }
  for (auto& [number, pair] : world().queue_pairs)
    if (pair->adapter->host == host) fail(*pair);
  world().severed.insert(host);
  std::erase_if(world().answered, [host](const auto& one) { return one.first.first == host; });
}

void revive_host(unsigned host) {
  const std::scoped_lock lock(world().lock);
  world().severed.erase(host);
}

bool has_problems() {
  return world().has_problems.load(std::memory_order_acquire);
}

bool is_open(std::size_t number, std::uint32_t key) {
  const std::scoped_lock lock(world().lock);
  const Adapter* const adapter = world().adapters.at(number).get();
  const auto region = world().regions.find({adapter, key});
  if (region != world().regions.end()) return (region->second->access & IBV_ACCESS_REMOTE_WRITE) != 0;
  return std::any_of(world().windows.begin(), world().windows.end(), [&](const Window* one) {
    return static_cast<const Context*>(one->context)->adapter == adapter && one->region != nullptr &&
           one->live_key == key;
  });
}

}  // namespace rtrs::mock_hca
