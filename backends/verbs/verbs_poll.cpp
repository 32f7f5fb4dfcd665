// Completion queues, events and sleeping.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "backends/verbs/verbs_fabric.hpp"

namespace rtrs::verbs {
namespace {

// Number of polls between two queries of the kernel for other events. Each poll reads the queues.
constexpr unsigned kPollsPerCheck = 32;
constexpr std::uint32_t kMinEntries = 1024;

}  // namespace

bool FabricImpl::open(Connection& connection, Device& device) {
  connection.fit(device);
  SharedQueue* const queue = queue_on(device, connection.entries());
  if (!connection.open(device, queue)) return false;
  activate(*queue);
  return true;
}

// Each queue is as large as all queues before it together, so that their number stays small.
SharedQueue* FabricImpl::queue_on(Device& device, std::uint32_t entries) {
  std::uint32_t all = kMinEntries;
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
    // The first reported reason is kept.
    if (connection.stage() != Connection::Stage::up || connection.ending() != Reason::none) return;
    connection.set_ending(reason);
    activate(connection);
  });
}

void FabricImpl::activate(SharedQueue& queue) noexcept {
  if (!std::exchange(queue.in_active_list, true)) active_.push_back(&queue);
}

void FabricImpl::activate(Connection& connection) noexcept {
  if (connection.ending() != Reason::none && !std::exchange(connection.in_ending_list, true)) {
    ending_.push_back(&connection);
    chores_ |= kRareChores;
  }
  if (connection.queue() != nullptr) activate(*connection.queue());
}

void FabricImpl::deactivate(Connection& connection) noexcept {
  if (std::exchange(connection.in_ending_list, false)) std::erase(ending_, &connection);
}

void FabricImpl::enlist_unposted(Connection& connection) noexcept {
  if (!connection.has_unposted()) return;
  if (!std::exchange(connection.in_unposted_list, true)) unposted_.push_back(&connection);
  chores_ |= kPosts;
  // Another thread posts while the polling thread sleeps, so no poll() follows soon.
  if (asleep_) flush_unposted();
}

void FabricImpl::flush_unposted() noexcept {
  // A connection whose requests find no room stays in the list.
  std::size_t stay = 0;
  for (Connection* const connection : unposted_) {
    connection->in_unposted_list = false;
    if (connection->stage() != Connection::Stage::up) continue;
    connection->flush();
    if (connection->failed()) {
      report_lost(*connection, connection->failure());
    } else if (connection->has_unposted()) {
      connection->in_unposted_list = true;
      unposted_[stay++] = connection;
    }
  }
  unposted_.erase(unposted_.begin() + static_cast<std::ptrdiff_t>(stay), unposted_.end());
}

void FabricImpl::check_kernel_events() noexcept {
  polls_until_check_ = kPollsPerCheck;
  std::array<epoll_event, 16> named;
  const int count = ::epoll_wait(epoll_.get(), named.data(), static_cast<int>(named.size()), 0);
  // An event may remove a device; the device and its descriptors stay valid until the next poll().
  for (int i = 0; i < count; ++i) {
    void* tag = named[static_cast<std::size_t>(i)].data.ptr;
    if (tag == &channel_) {
      read_manager();
    } else if (tag == &destinations_) {
      connect_named();
    } else if (tag == &timer_) {
      std::uint64_t expirations = 0;
      // The timer may fire early by the clock of poll(): set it again.
      if (::read(timer_.get(), &expirations, sizeof expirations) == sizeof expirations) set_timer();
    } else {
      const auto& watched = *static_cast<const Watch*>(tag);
      watched.kind == Watch::Kind::completions ? read_completions(*watched.device)
                                               : read_trouble(*watched.device);
    }
  }
}

std::size_t FabricImpl::report_endings(const SharedQueue& queue, std::span<FabricEvent> out) noexcept {
  std::size_t count = 0;
  std::erase_if(ending_, [&](Connection* connection) {
    if (connection->queue() != &queue || count == out.size()) return false;
    if (connection->stage() != Connection::Stage::lost) {
      connection->lost(out[count++], connection->ending());
      suspect(*connection->device());
    }
    connection->in_ending_list = false;
    return true;
  });
  return count;
}

std::size_t FabricImpl::read_queue(SharedQueue& queue, std::span<FabricEvent> out) noexcept {
  std::size_t count = 0;
  while (count < out.size()) {
    const ibv_wc* const completion = queue.next();
    if (completion == nullptr) break;
    Connection* const connection = queue.owner_of(completion->wr_id);
    if (connection == nullptr) continue;
    if (connection->translate(*completion, out[count])) ++count;
    if (connection->stage() == Connection::Stage::lost) suspect(*connection->device());
    if (connection->has_shown() && !std::exchange(connection->in_shown_list, true)) {
      with_shown_.push_back(connection);
      chores_ |= kRareChores;
    }
  }
  if (count == out.size()) return count;
  // All completions have been reported, so a failure of the queue may be reported now.
  if (queue.failed) lose_queue(queue, Reason::fabric_gone);
  return ending_.empty() ? count : count + report_endings(queue, out.subspan(count));
}

std::size_t FabricImpl::busy_queue(std::size_t from) noexcept {
  while (from < active_.size() && active_[from]->is_quiet() && ending_.empty()) ++from;
  return from;
}

std::size_t FabricImpl::read_queues(std::size_t first, std::span<FabricEvent> out) noexcept {
  std::size_t count = 0;
  std::size_t next = first;
  while (next < active_.size()) {
    count += read_queue(*active_[next++], out.subspan(count));
    if (count == out.size()) break;
    next = busy_queue(next);
  }
  // Queues that were not read are first in the next poll.
  if (next < active_.size())
    std::rotate(active_.begin(), active_.begin() + static_cast<std::ptrdiff_t>(next), active_.end());
  return count;
}

std::size_t FabricImpl::poll(Nanos now, std::span<FabricEvent> out) noexcept {
  now_ = now;
  asleep_ = false;
  // Fast path, which most polls take: there is a single queue, and it is empty.
  if ((--polls_until_check_ == 0 || chores_ != 0 || timer_due_ <= now) && !do_chores()) return poll_all(out);
  if (active_.size() != 1) return read_queues(busy_queue(0), out);
  return active_.front()->is_quiet() ? 0 : read_queue(*active_.front(), out);
}

std::size_t FabricImpl::poll_all(std::span<FabricEvent> out) noexcept {
  const std::size_t count = pending_.empty() ? 0 : pending_.take(out);
  if (pending_.has_bytes()) chores_ |= kRareChores;
  // Pending events of a connection are reported before those in its queue, because they are older.
  if (count == out.size() || !pending_.empty()) return count;
  return count + read_queues(busy_queue(0), out.subspan(count));
}

bool FabricImpl::do_chores() noexcept {
  if ((chores_ & kRareChores) != 0)
    do_rare_chores();
  else if (!unposted_.empty())
    flush_unposted();
  const bool due = timer_due_ <= now_;
  if (due || polls_until_check_ == 0) check_kernel_events();
  if (due) on_timer();
  chores_ = unposted_.empty() ? 0 : kPosts;
  if (ending_.empty() && pending_.empty() && !check_devices_due_) return true;
  chores_ |= kRareChores;
  return false;
}

void FabricImpl::do_rare_chores() noexcept {
  if (!free_at_next_poll_.empty()) free_at_next_poll_.clear();
  if (pending_.has_bytes()) pending_.free_bytes();
  if (!with_shown_.empty()) reuse_shown();
  if (!unposted_.empty()) flush_unposted();
  if (check_devices_due_) drop_gone_devices();
  if (!accepting_.empty()) start_accepts();
}

void FabricImpl::suspect(Device& device) noexcept {
  device.suspect = true;
  check_devices_due_ = true;
  chores_ |= kRareChores;
}

void FabricImpl::reuse_shown() noexcept {
  for (Connection* connection : with_shown_) {
    connection->in_shown_list = false;
    connection->reuse_shown();
  }
  with_shown_.clear();
}

bool FabricImpl::try_wait() noexcept {
  flush_unposted();
  if (!pending_.empty() || !accepting_.empty() || !ending_.empty()) return false;
  polls_until_check_ = 1;
  while (!active_.empty()) {
    if (!active_.back()->arm()) return false;
    active_.back()->in_active_list = false;
    active_.pop_back();
  }
  asleep_ = true;
  return true;
}

}  // namespace rtrs::verbs
