// A completion queue shared by connections of one device. The queue has room for everything that its members
// may have outstanding, so it cannot overrun. Each work request carries the tag of its connection;
// completions for a connection that has left are dropped.
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
  // The lower bits of a wr_id identify the work request or receive of its connection. The upper bits identify
  // the connection.
  static constexpr unsigned kNumberBits = 24;
  static constexpr std::uint64_t kNumbers = std::uint64_t{1} << (kNumberBits - 1);
  static constexpr std::uint64_t kReceive = kNumbers;

  // Returns nullptr on failure (errno has the reason).
  static std::unique_ptr<SharedQueue> make(Device&, std::uint32_t entries);
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;

  ibv_cq* get() const noexcept { return queue_.get(); }
  const Device& device() const noexcept { return device_; }
  std::uint32_t entries() const noexcept { return static_cast<std::uint32_t>(queue_->cqe); }
  bool has_room(std::uint32_t entries) const noexcept { return !failed && entries <= room_; }
  bool has_members() const noexcept { return member_count_ != 0; }

  // Adds a connection and returns the tag for its wr_ids, valid until leave(). Precondition: there is room.
  std::uint64_t join(Connection&, std::uint32_t entries);
  // Delivers pending completions to a member that is about to destroy its queue pair, because some devices
  // discard them with the queue pair.
  void settle(Connection&, std::uint64_t tag) noexcept;
  void leave(std::uint64_t tag, std::uint32_t entries) noexcept;

  // Starts a round. Returns true if nothing has completed, the most common case; if false, call next().
  // Defined inline because most polls do only this.
  bool is_quiet() noexcept {
    if (next_ < count_ || !later_.empty() || failed) return checked_ = false;
    const int count = ask();
    if (count == 0 && vacated_ == 0) return true;
    take(count);
    return count == 0;
  }
  // Returns the next completion of this round, valid until the next call on this queue; nullptr once the
  // queue was empty in this round.
  const ibv_wc* next() noexcept {
    if (next_ < count_) return &read_[next_++];
    if (!later_.empty()) {
      if (next_later_ < later_.size()) return &later_[next_later_++];
      later_.clear();
      next_later_ = 0;
    }
    if (checked_ && count_ < read_.size()) return nullptr;
    read();
    return count_ == 0 ? nullptr : &read_[next_++];
  }
  // Returns nullptr if the connection has left.
  Connection* owner_of(std::uint64_t wr_id) const noexcept;
  // Requests an event for the next completion; returns false if one is already there.
  bool arm() noexcept;
  template <class Do>
  void for_each_member(Do&& act) const {
    for (const Member& one : members_)
      if (one.connection != nullptr) act(*one.connection);
  }

  bool failed = false;          // nothing more can be read
  bool in_active_list = false;  // maintained by the fabric: each poll() reads it

 private:
  struct Member {
    Connection* connection = nullptr;
    std::uint16_t generation = 0;  // current generation of this member index
  };
  SharedQueue(Device& device) : device_(device) {}
  void read() noexcept {
    next_ = count_ = 0;
    checked_ = true;
    if (!failed) take(ask());
  }
  int ask() noexcept {
    next_ = count_ = 0;
    checked_ = true;
    return ibv_poll_cq(queue_.get(), static_cast<int>(read_.size()), read_.data());
  }
  void take(int count) noexcept {
    if (count > 0)
      count_ = static_cast<unsigned>(count);
    else if (count < 0)
      failed = true;
    // If fewer completions than requested were read, the queue is empty.
    if (vacated_ != 0 && count_ < read_.size()) room_ += std::exchange(vacated_, 0);
  }

  Device& device_;
  std::vector<Member> members_;
  std::vector<std::uint32_t> free_members_;
  std::uint32_t member_count_ = 0;
  std::uint32_t room_ = 0;
  // Entries of members that have left. The entries become free only after the queue was empty, because some
  // devices leave the completions of these members in the queue.
  std::uint32_t vacated_ = 0;
  std::array<ibv_wc, 32> read_;
  unsigned next_ = 0, count_ = 0;  // position and number of completions in read_
  bool checked_ = false;           // read_ was filled in this round
  std::vector<ibv_wc> later_;      // completions read while a member left; processed after those in read_
  std::size_t next_later_ = 0;
  QueueHandle queue_;
};

}  // namespace rtrs::verbs
