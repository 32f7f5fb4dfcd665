// Which completion queue a connection shares.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "backends/verbs/verbs_fabric.hpp"

namespace rtrs::verbs {
namespace {

constexpr std::uint32_t kLeastEntries = 1024;

}  // namespace

bool FabricImpl::open(Connection& connection, Device& device) {
  connection.fit(device);
  SharedQueue* const queue = queue_on(device, connection.entries());
  if (!connection.open(device, queue)) return false;
  activate(*queue);
  return true;
}

// Each queue is as large as those before it together, so that there are few however many connections there
// are.
SharedQueue* FabricImpl::queue_on(Device& device, std::uint32_t entries) {
  std::uint32_t all = kLeastEntries;
  for (const auto& queue : queues_) {
    if (&queue->device() != &device) continue;
    if (queue->has_room(entries)) return queue.get();
    all += queue->entries();
  }
  const auto most = static_cast<std::uint32_t>(device.attributes.max_cqe);
  if (entries > most) return errno = EINVAL, nullptr;
  auto queue = SharedQueue::make(device, std::min(std::max(2 * entries, all), most));
  if (queue == nullptr) queue = SharedQueue::make(device, entries);
  if (queue == nullptr || !queue->has_room(entries)) return nullptr;
  queues_.push_back(std::move(queue));
  active_.reserve(queues_.size());
  return queues_.back().get();
}

void FabricImpl::drop_queues_of(const Device& device) noexcept {
  std::erase_if(active_, [&](const SharedQueue* queue) { return &queue->device() == &device; });
  std::erase_if(queues_, [&](const auto& queue) { return &queue->device() == &device; });
}

void FabricImpl::lose_queue(SharedQueue& queue, Reason reason) noexcept {
  queue.failed = true;
  queue.for_each_member([&](Connection& connection) {
    if (connection.stage() != Connection::Stage::up) return;
    connection.set_ending(reason);
    activate(connection);
  });
}

}  // namespace rtrs::verbs
