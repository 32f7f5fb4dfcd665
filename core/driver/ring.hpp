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
  void open(std::size_t capacity) { items_.resize(capacity); }
  bool empty() const noexcept { return size_ == 0; }
  bool full() const noexcept { return size_ == items_.size(); }
  std::size_t size() const noexcept { return size_; }
  T& front() noexcept { return items_[head_]; }
  T& back() noexcept {
    const std::size_t at = head_ + size_ - 1;
    return items_[at < items_.size() ? at : at - items_.size()];
  }
  // The next free item, which keeps what it last held: fill it in place.
  T& push() noexcept {
    RTRS_ASSERT(!full());
    const std::size_t at = head_ + size_++;
    return items_[at < items_.size() ? at : at - items_.size()];
  }
  void pop() noexcept {
    RTRS_ASSERT(!empty());
    head_ = head_ + 1 == items_.size() ? 0 : head_ + 1;
    --size_;
  }

 private:
  std::vector<T> items_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

}  // namespace rtrs
