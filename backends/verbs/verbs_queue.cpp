#include "backends/verbs/verbs_queue.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "backends/verbs/verbs_connection.hpp"
#include "core/base/assert.hpp"

namespace rtrs::verbs {
namespace {

// A wr_id is the number of a place, the generation of the place and the number of the work request.
constexpr unsigned kPlaceShift = 40;

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

void SharedQueue::read() noexcept {
  next_ = count_ = 0;
  looked_ = true;
  if (failed) return;
  const int count = ibv_poll_cq(queue_.get(), static_cast<int>(read_.size()), read_.data());
  failed = count < 0;
  count_ = static_cast<unsigned>(std::max(count, 0));
  // Fewer than asked for: the queue is empty.
  if (count_ < read_.size()) room_ += std::exchange(vacated_, 0);
}

const ibv_wc* SharedQueue::next() noexcept {
  if (next_ < count_) return &read_[next_++];
  if (next_later_ < later_.size()) return &later_[next_later_++];
  later_.clear();
  next_later_ = 0;
  if (looked_ && count_ < read_.size()) return nullptr;
  read();
  return count_ == 0 ? nullptr : &read_[next_++];
}

bool SharedQueue::arm() noexcept {
  if (next_ < count_ || next_later_ < later_.size()) return false;
  if (failed) return true;
  if (ibv_req_notify_cq(queue_.get(), 0) != 0) return false;
  read();
  return count_ == 0;
}

void SharedQueue::settle(Connection& connection, std::uint64_t tag) noexcept try {
  const auto tell = [&](const ibv_wc& completion) {
    const bool its = completion.wr_id >> kNumberBits == tag >> kNumberBits;
    if (its) connection.settle(completion);
    return its;
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
  // What lies in the queue stays there.
}

}  // namespace rtrs::verbs
