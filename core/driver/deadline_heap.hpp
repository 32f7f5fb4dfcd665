// Timers of many sessions, each identified by a small index; finds the earliest in logarithmic time. Equal
// deadlines are ordered by index, so that a run does not depend on earlier events. Memory is reserved at
// set-up.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/assert.hpp"
#include "core/proto/ids.hpp"

namespace rtrs {

class DeadlineHeap {
 public:
  // Indices are 0 .. count - 1.
  explicit DeadlineHeap(std::size_t count) : where_(count, kAbsent) { heap_.reserve(count); }

  bool empty() const noexcept { return heap_.empty(); }
  // Earliest deadline; kNever if there is none.
  Nanos first() const noexcept { return heap_.empty() ? kNever : heap_.front().when; }
  // Precondition: not empty.
  std::uint16_t first_index() const noexcept {
    RTRS_ASSERT(!heap_.empty());
    return heap_.front().index;
  }
  // Sets a deadline; kNever removes it.
  void set(std::uint16_t index, Nanos when) noexcept {
    std::size_t at = where_[index];
    if (when == kNever) {
      if (at != kAbsent) remove(at);
      return;
    }
    if (at == kAbsent) {
      at = heap_.size();
      heap_.push_back({when, index});
      where_[index] = static_cast<std::uint32_t>(at);
    } else {
      heap_[at].when = when;
    }
    settle(at);
  }

 private:
  static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};
  struct Entry {
    Nanos when;
    std::uint16_t index;
    bool before(const Entry& other) const noexcept {
      return when != other.when ? when < other.when : index < other.index;
    }
  };

  void remove(std::size_t at) noexcept {
    where_[heap_[at].index] = kAbsent;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (at == heap_.size()) return;
    heap_[at] = last;
    where_[last.index] = static_cast<std::uint32_t>(at);
    settle(at);
  }
  // Moves one entry up or down to its place.
  void settle(std::size_t at) noexcept {
    while (at > 0 && heap_[at].before(heap_[(at - 1) / 2])) {
      exchange(at, (at - 1) / 2);
      at = (at - 1) / 2;
    }
    while (true) {
      std::size_t least = at;
      for (std::size_t child = 2 * at + 1; child <= 2 * at + 2 && child < heap_.size(); ++child)
        if (heap_[child].before(heap_[least])) least = child;
      if (least == at) return;
      exchange(at, least);
      at = least;
    }
  }
  void exchange(std::size_t a, std::size_t b) noexcept {
    std::swap(heap_[a], heap_[b]);
    where_[heap_[a].index] = static_cast<std::uint32_t>(a);
    where_[heap_[b].index] = static_cast<std::uint32_t>(b);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> where_;  // place in the heap, indexed by timer
};

}  // namespace rtrs
