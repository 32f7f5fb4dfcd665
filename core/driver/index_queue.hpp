// FIFO queue of items that are stored in a vector. Each item holds the index of its successor, so the queue
// allocates no memory. An item is in at most one queue.
#pragma once
#include <cstdint>
#include <vector>

#include "core/base/assert.hpp"

namespace rtrs {

inline constexpr std::uint32_t kNoIndex = 0xffffffff;

// Item has a member `std::uint32_t next`.
class IndexQueue {
 public:
  bool empty() const noexcept { return head_ == kNoIndex; }
  std::uint32_t front() const noexcept { return head_; }
  template <class Item>
  void push_back(std::vector<Item>& items, std::uint32_t index) noexcept {
    items[index].next = kNoIndex;
    (empty() ? head_ : items[tail_].next) = index;
    tail_ = index;
  }
  template <class Item>
  void push_front(std::vector<Item>& items, std::uint32_t index) noexcept {
    items[index].next = head_;
    if (empty()) tail_ = index;
    head_ = index;
  }
  template <class Item>
  std::uint32_t pop_front(const std::vector<Item>& items) noexcept {
    RTRS_ASSERT(!empty());
    const std::uint32_t index = head_;
    head_ = items[index].next;
    return index;
  }

 private:
  std::uint32_t head_ = kNoIndex;
  std::uint32_t tail_ = kNoIndex;
};

}  // namespace rtrs
