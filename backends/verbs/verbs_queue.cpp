#include "backends/verbs/verbs_queue.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "backends/verbs/verbs_connection.hpp"
#include "core/base/assert.hpp"

namespace rtrs::verbs {
namespace {

// A wr_id consists of the member index, the generation of that index and the work request number.
constexpr unsigned kPlaceShift = 40;
// A tag that no member ever has.
constexpr std::uint64_t kNobodys = ~std::uint64_t{0};

std::uint64_t tag_of(std::size_t place, std::uint16_t generation) noexcept {
  return std::uint64_t{place} << kPlaceShift | std::uint64_t{generation} << SharedQueue::kNumberBits;
}

}  // namespace

std::unique_ptr<SharedQueue> SharedQueue::make(Device& device, std::uint32_t entries) {
  std::unique_ptr<SharedQueue> made(new SharedQueue(device));
  made->queue_.reset(ibv_create_cq(device.context.get(), static_cast<int>(entries), made.get(),
                                   device.channel.get(), device.next_vector()));
  if (made->queue_ == nullptr) return nullptr;
  made->room_ = made->entries();
  return made;
}

std::uint64_t SharedQueue::join(Connection& connection, std::uint32_t entries) {
  RTRS_ASSERT(has_room(entries));
  if (free_members_.empty()) {
    free_members_.push_back(static_cast<std::uint32_t>(members_.size()));
    members_.emplace_back();
    free_members_.reserve(members_.size());
  }
  const std::uint32_t place = free_members_.back();
  free_members_.pop_back();
  members_[place].connection = &connection;
  ++member_count_;
  room_ -= entries;
  return tag_of(place, members_[place].generation);
}

void SharedQueue::leave(std::uint64_t tag, std::uint32_t entries) noexcept {
  const auto place = static_cast<std::uint32_t>(tag >> kPlaceShift);
  members_[place].connection = nullptr;
  ++members_[place].generation;
  free_members_.push_back(place);
  --member_count_;
  vacated_ += entries;
}

Connection* SharedQueue::owner_of(std::uint64_t wr_id) const noexcept {
  const std::size_t place = wr_id >> kPlaceShift;
  if (place >= members_.size()) return nullptr;
  const Member& member = members_[place];
  return static_cast<std::uint16_t>(wr_id >> kNumberBits) == member.generation ? member.connection : nullptr;
}

bool SharedQueue::arm() noexcept {
  if (next_ < count_ || next_later_ < later_.size()) return false;
  if (failed) return true;
  // The next poll() reports the failure to the connections that share the queue.
  if (ibv_req_notify_cq(queue_.get(), 0) != 0) return failed = true, false;
  read();
  return count_ == 0;
}

void SharedQueue::settle(Connection& connection, std::uint64_t tag) noexcept try {
  const auto tell = [&](ibv_wc& completion) {
    if (completion.wr_id >> kNumberBits != tag >> kNumberBits) return false;
    connection.settle(completion);
    completion.wr_id = kNobodys;
    return true;
  };
  std::for_each(read_.begin() + next_, read_.begin() + count_, tell);
  std::for_each(later_.begin() + static_cast<std::ptrdiff_t>(next_later_), later_.end(), tell);
  std::array<ibv_wc, 32> some;
  int count = 0;
  do {
    later_.reserve(later_.size() + some.size());
    count = failed ? 0 : ibv_poll_cq(queue_.get(), static_cast<int>(some.size()), some.data());
    for (int i = 0; i < count; ++i)
      if (!tell(some[static_cast<std::size_t>(i)])) later_.push_back(some[static_cast<std::size_t>(i)]);
  } while (count == static_cast<int>(some.size()));
} catch (const std::bad_alloc&) {
  // Completions that were not read stay in the queue.
}

}  // namespace rtrs::verbs
