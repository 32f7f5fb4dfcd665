// A completion queue that connections of one device share. It has room for all that its members may have
// outstanding, so that it cannot overrun. Each work request carries whose it is; what completes of a
// connection that has left is nobody's.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backends/verbs/verbs_device.hpp"
#include "backends/verbs/verbs_handles.hpp"

namespace rtrs::verbs {

class Connection;

class SharedQueue {
 public:
  // The lower bits of a wr_id: which work request of its connection it is, or which receive. The others say
  // whose.
  static constexpr unsigned kNumberBits = 24;
  static constexpr std::uint64_t kNumbers = std::uint64_t{1} << (kNumberBits - 1);
  static constexpr std::uint64_t kReceive = kNumbers;

  // nullptr: it cannot be had (errno says why).
  static std::unique_ptr<SharedQueue> make(Device&, std::uint32_t entries);
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;

  ibv_cq* get() const noexcept { return queue_.get(); }
  const Device& device() const noexcept { return device_; }
  std::uint32_t entries() const noexcept { return static_cast<std::uint32_t>(queue_->cqe); }
  bool has_room(std::uint32_t entries) const noexcept { return !failed && entries <= room_; }
  bool has_members() const noexcept { return member_count_ != 0; }

  // What its wr_ids begin with, until leave(). There has to be room.
  std::uint64_t join(Connection&, std::uint32_t entries);
  // Tells a member that is about to give up its queue pair of what was done: some devices throw that away
  // with the queue pair.
  void settle(Connection&, std::uint64_t tag) noexcept;
  void leave(std::uint64_t tag, std::uint32_t entries) noexcept;

  // Begins a round. True: nothing has come, as in most; false: next() knows. Here, as what most polls come
  // to.
  bool is_quiet() noexcept {
    if (next_ < count_ || !later_.empty() || failed) return looked_ = false;
    const int count = ask();
    if (count == 0 && vacated_ == 0) return true;
    take(count);
    return count == 0;
  }
  // The next completion of this round, valid until the next call of this queue; nullptr: the queue was seen
  // empty since the round began.
  const ibv_wc* next() noexcept {
    if (next_ < count_) return &read_[next_++];
    if (!later_.empty()) {
      if (next_later_ < later_.size()) return &later_[next_later_++];
      later_.clear();
      next_later_ = 0;
    }
    if (looked_ && count_ < read_.size()) return nullptr;
    read();
    return count_ == 0 ? nullptr : &read_[next_++];
  }
  // nullptr: its connection has left.
  Connection* owner_of(std::uint64_t wr_id) const noexcept;
  // Asks the device to name this queue when something completes; false when something has already.
  bool arm() noexcept;
  template <class Do>
  void for_each_member(Do&& act) const {
    for (const Member& one : members_)
      if (one.connection != nullptr) act(*one.connection);
  }

  bool failed = false;          // nothing more can be read
  bool in_active_list = false;  // kept by the fabric: to be read by each poll()

 private:
  struct Member {
    Connection* connection = nullptr;
    std::uint16_t generation = 0;  // of the place
  };
  SharedQueue(Device& device) : device_(device) {}
  void read() noexcept {
    next_ = count_ = 0;
    looked_ = true;
    if (!failed) take(ask());
  }
  int ask() noexcept {
    next_ = count_ = 0;
    looked_ = true;
    return ibv_poll_cq(queue_.get(), static_cast<int>(read_.size()), read_.data());
  }
  void take(int count) noexcept {
    if (count > 0)
      count_ = static_cast<unsigned>(count);
    else if (count < 0)
      failed = true;
    // Fewer than asked for: the queue is empty.
    if (vacated_ != 0 && count_ < read_.size()) room_ += std::exchange(vacated_, 0);
  }

  Device& device_;
  std::vector<Member> members_;
  std::vector<std::uint32_t> free_members_;
  std::uint32_t member_count_ = 0;
  std::uint32_t room_ = 0;
  // Of those who have left: their room is free once the queue was seen empty, for some devices leave in it
  // what completed of them.
  std::uint32_t vacated_ = 0;
  std::array<ibv_wc, 32> read_;
  unsigned next_ = 0, count_ = 0;  // in read_
  bool looked_ = false;            // in this round
  std::vector<ibv_wc> later_;      // read while a member left; comes after read_
  std::size_t next_later_ = 0;
  QueueHandle queue_;
};

}  // namespace rtrs::verbs
