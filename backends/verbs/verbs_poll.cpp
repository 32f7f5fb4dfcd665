// Events and sleeping.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "backends/verbs/verbs_fabric.hpp"

namespace rtrs::verbs {
namespace {

// Events that one connection may report before it is another's turn.
constexpr std::size_t kFairShare = 16;
// While connections are asked directly, this often the kernel is asked about everything else.
constexpr unsigned kPollsPerLook = 32;

}  // namespace

void FabricImpl::activate(Connection& connection) noexcept {
  if (!std::exchange(connection.in_active_list, true)) active_.push_back(&connection);
}

void FabricImpl::deactivate(Connection& connection) noexcept {
  if (std::exchange(connection.in_active_list, false)) std::erase(active_, &connection);
}

void FabricImpl::flush_soon(Connection& connection) noexcept {
  if (!connection.has_unposted()) return;
  if (!std::exchange(connection.in_unposted_list, true)) unposted_.push_back(&connection);
}

void FabricImpl::flush_unposted() noexcept {
  for (Connection* connection : unposted_) {
    connection->in_unposted_list = false;
    if (connection->stage() != Connection::Stage::up) continue;
    connection->flush();
    if (connection->failed()) report_lost(*connection, connection->failure());
  }
  unposted_.clear();
}

std::size_t FabricImpl::take_pending(std::span<FabricEvent> out) noexcept {
  std::size_t count = 0;
  while (count < out.size() && pending_taken_ < pending_.size()) {
    Pending& next = pending_[pending_taken_++];
    out[count] = next.event;
    if (!next.bytes.empty()) {
      shown_bytes_.push_back(std::move(next.bytes));
      const std::string& shown = shown_bytes_.back();
      *bytes_in(out[count]) = std::as_bytes(std::span(shown.data(), shown.size()));
    }
    ++count;
  }
  if (pending_taken_ == pending_.size()) {
    pending_.clear();
    pending_taken_ = 0;
  }
  return count;
}

void FabricImpl::look_at_kernel() noexcept {
  polls_since_look_ = 0;
  look_now_ = false;
  std::array<epoll_event, 16> named;
  const int count = ::epoll_wait(epoll_.get(), named.data(), static_cast<int>(named.size()), 0);
  // What is reported may end a device; then it and its descriptors live until the next poll().
  for (int i = 0; i < count; ++i) {
    void* tag = named[static_cast<std::size_t>(i)].data.ptr;
    if (tag == &channel_) {
      read_manager();
    } else if (tag == &names_) {
      connect_named();
    } else if (tag == &timer_) {
      std::uint64_t expirations = 0;
      // Too early by the time of poll(): once more.
      if (::read(timer_.get(), &expirations, sizeof expirations) == sizeof expirations) set_timer();
    } else {
      const auto& watched = *static_cast<const Watch*>(tag);
      watched.kind == Watch::Kind::completions ? read_completions(*watched.device)
                                               : read_trouble(*watched.device);
    }
  }
}

std::size_t FabricImpl::read_connections(std::span<FabricEvent> out) noexcept {
  std::size_t count = 0;
  std::size_t next = 0;
  for (std::size_t turns = active_.size(); turns > 0 && count < out.size(); --turns) {
    Connection& connection = *active_[next];
    const std::size_t room = std::min(kFairShare, out.size() - count);
    bool drained = false;
    count += connection.read(out.subspan(count, room), drained);
    if (connection.has_shown()) with_shown_.push_back(&connection);
    if (connection.stage() == Connection::Stage::lost) {
      deactivate(connection);
    } else {
      ++next;
    }
  }
  std::rotate(active_.begin(), active_.begin() + static_cast<std::ptrdiff_t>(next), active_.end());
  return count;
}

std::size_t FabricImpl::poll(Nanos now, std::span<FabricEvent> out) noexcept {
  now_ = now;
  graveyard_.clear();
  shown_bytes_.clear();
  for (Connection* connection : with_shown_) connection->reuse_shown();
  with_shown_.clear();
  flush_unposted();
  drop_gone_devices();
  start_accepts();
  const bool due = timer_due_ <= now_;
  if (due || look_now_ || ++polls_since_look_ >= kPollsPerLook) look_at_kernel();
  if (due) on_timer();
  const std::size_t count = take_pending(out);
  // What is pending about a connection comes before what its queue holds.
  if (pending_taken_ < pending_.size()) return count;
  return count + read_connections(out.subspan(count));
}

bool FabricImpl::try_wait() noexcept {
  flush_unposted();
  if (!pending_.empty() || !accepting_.empty()) return false;
  look_now_ = true;
  while (!active_.empty()) {
    if (!active_.back()->arm()) return false;
    deactivate(*active_.back());
  }
  return true;
}

}  // namespace rtrs::verbs
