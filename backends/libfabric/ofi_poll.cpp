// Events and sleeping.
//
// All completion queues, the event queue and the listener have a descriptor in one epoll instance, on which
// the caller sleeps. Reading many queues costs 0.2 to 0.4 us per queue and poll. So with more than
// `direct_poll_connections` connections, poll() reads only queues that the kernel reports or whose connection
// has posted something.
#include <rdma/fi_errno.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/libfabric/ofi_fabric.hpp"

namespace rtrs::ofi {
namespace {

// Maximum number of events that one connection may report per turn.
constexpr std::size_t kFairShare = 16;
// While poll() reads the queues directly, it asks the kernel for other events once in this number of polls.
constexpr unsigned kPollsPerCheck = 32;
// After this number of reads without data, a connection is read less often, because reading an empty queue is
// a system call that delays busy connections. A service connection, for example, rarely has data.
constexpr unsigned kQuietReads = 256;
constexpr unsigned kPollsPerQuietRead = 8;

}  // namespace

void FabricImpl::mark_unarmed(Connection& connection) noexcept {
  if (!std::exchange(connection.in_unarmed_list, true)) unarmed_.push_back(&connection);
}

void FabricImpl::mark_ready(Connection& connection) noexcept {
  if (connection.queue() == nullptr || std::exchange(connection.in_ready_list, true)) return;
  ready_.push_back(&connection);
}

void FabricImpl::check_kernel_events() noexcept {
  polls_since_kernel_check_ = 0;
  check_now_ = false;
  std::array<epoll_event, 64> named;
  const int count = ::epoll_wait(epoll_fd_, named.data(), static_cast<int>(named.size()), 0);
  for (int i = 0; i < count; ++i) {
    void* tag = named[static_cast<std::size_t>(i)].data.ptr;
    if (tag == &events_) {
      read_events();
    } else if (tag == &listener_) {
      take_requests();
    } else if (tag == &destinations_) {
      connect_named();
    } else {
      mark_ready(*static_cast<Connection*>(tag));
    }
  }
}

void FabricImpl::find_ready() noexcept {
  const bool direct = endpoints_open_ != 0 && endpoints_open_ <= options_.direct_poll_connections;
  if (!direct || check_now_ || ++polls_since_kernel_check_ >= kPollsPerCheck) check_kernel_events();
  if (!direct) return;
  const bool all = polls_since_kernel_check_ % kPollsPerQuietRead == 0;
  for (auto& [endpoint, connection] : by_endpoint_) {
    if (connection->stage() != Connection::Stage::up) continue;
    if (all || connection->quiet_reads < kQuietReads) mark_ready(*connection);
  }
}

std::size_t FabricImpl::read_connections(std::span<FabricEvent> out) noexcept {
  std::size_t count = 0;
  std::size_t next = 0;
  for (std::size_t turns = ready_.size(); turns > 0 && count < out.size(); --turns) {
    Connection& connection = *ready_[next];
    const std::size_t room = std::min(kFairShare, out.size() - count);
    const Connection::Read read = connection.read(out.subspan(count, room));
    count += read.events;
    connection.quiet_reads = read.events != 0 ? 0 : connection.quiet_reads + 1;
    mark_unarmed(connection);
    if (connection.has_delivered()) with_delivered_.push_back(&connection);
    if (connection.stage() == Connection::Stage::lost) {
      shut(connection);
    } else if (read.drained) {
      connection.in_ready_list = false;
      ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(next));
    } else {
      ++next;
    }
  }
  std::rotate(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(next), ready_.end());
  return count;
}

std::size_t FabricImpl::poll(Nanos, std::span<FabricEvent> out) noexcept {
  free_at_next_poll_.clear();
  pending_.free_bytes();
  for (Connection* connection : with_delivered_) connection->reuse_delivered();
  with_delivered_.clear();
  find_ready();
  const std::size_t count = pending_.take(out);
  // Pending events of a connection are reported before those in its queue, because they are older.
  if (!pending_.empty()) return count;
  return count + read_connections(out.subspan(count));
}

bool FabricImpl::try_wait() noexcept {
  if (!pending_.empty() || !ready_.empty()) return false;
  fid_t queue = &events_->fid;
  check_now_ = true;
  if (fi_trywait(device_->fabric.get(), &queue, 1) != 0) {
    // fi_trywait() cleared the signal of the pending event, so the kernel will not report the queue.
    read_events();
    return false;
  }
  while (!unarmed_.empty()) {
    Connection& connection = *unarmed_.back();
    queue = &connection.queue()->fid;
    if (fi_trywait(device_->fabric.get(), &queue, 1) != 0) {
      mark_ready(connection);
      return false;
    }
    connection.in_unarmed_list = false;
    unarmed_.pop_back();
  }
  return true;
}

}  // namespace rtrs::ofi
