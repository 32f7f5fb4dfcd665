// A first-in-first-out queue with a capacity fixed at set-up, so that the IO path never allocates.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"

namespace rtrs {

template <class T>
class Ring {
 public:
  // Reserves the memory without touching it, so that a queue which is never full uses only a part.
  void open(std::size_t capacity) {
    items_.reserve(capacity);
    capacity_ = capacity;
  }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ == capacity_; }
  std::size_t size() const noexcept { return size_; }
  T& front() noexcept { return items_[head_]; }
  T& back() noexcept { return items_[place(size_ - 1)]; }
  // Returns the next free item, which still contains its previous value, for filling in place.
  T& push() noexcept {
    RTRS_ASSERT(!full());
    const std::size_t at = place(size_++);
    if (at == items_.size()) items_.emplace_back();
    return items_[at];
  }
  void pop() noexcept {
    RTRS_ASSERT(!empty());
    // Starts over when empty, so that a queue that is often empty uses little of its memory.
    head_ = --size_ == 0 ? 0 : place(1);
  }

 private:
  std::size_t place(std::size_t n) const noexcept {
    const std::size_t at = head_ + n;
    return at < capacity_ ? at : at - capacity_;
  }

  std::vector<T> items_;  // items ever used
  std::size_t capacity_ = 0;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace rtrs
