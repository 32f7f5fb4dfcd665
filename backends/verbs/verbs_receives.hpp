// Receive buffers of a connection: buffers in slabs, each slab registered once, and places for receives
// without a buffer.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/verbs/verbs_handles.hpp"
#include "backends/verbs/verbs_queue.hpp"

namespace rtrs::verbs {

class Receives {
 public:
  explicit Receives(std::uint32_t depth);
  Receives(const Receives&) = delete;
  Receives& operator=(const Receives&) = delete;

  // Takes `count` free places of at least `bytes` each and adds more if needed. flush() posts a receive into
  // each, with `tag` in the upper bits of its wr_id. Returns false if there is no memory or the queue pair
  // rejected some.
  bool post(ibv_pd*, ibv_qp*, std::uint64_t tag, unsigned count, std::uint32_t bytes) noexcept;
  // Fast path to post one more receive of the size of the last one. Returns false without effect if that is
  // not possible.
  bool post_again(std::uint64_t tag, unsigned count, std::uint32_t bytes) noexcept {
    if (count != 1 || bytes != last_bytes_ || unposted_ == kChain || sizes_[last_size_].free_count == 0)
      return false;
    post_one(sizes_[last_size_], tag);
    return true;
  }
  bool short_of_memory() const noexcept { return short_; }
  bool flush(ibv_qp*) noexcept;
  bool has_unposted() const noexcept { return unposted_ != 0; }
  std::span<const std::byte> bytes(std::uint32_t place, std::uint32_t length) const noexcept {
    return {reinterpret_cast<const std::byte*>(places_[place].piece.addr), length};
  }
  void free(std::uint32_t place) noexcept {
    Place& freed = places_[place];
    Size& size = sizes_[freed.size];
    freed.next_free = std::exchange(size.first_free, place);
    ++size.free_count;
  }
  // The place stays in use by the caller and is freed by the next reuse_shown().
  void show(std::uint32_t place) noexcept { shown_.push_back(place); }
  void reuse_shown() noexcept;
  bool has_shown() const noexcept { return !shown_.empty(); }

 private:
  struct Place {
    ibv_sge piece{};              // part of a slab; empty for a receive without a buffer
    std::uint32_t size = 0;       // index in sizes_
    std::uint32_t next_free = 0;  // if this place is free: next free place of this size
  };
  struct Size {
    std::uint32_t bytes = 0;
    std::uint32_t first_free = 0, free_count = 0;
  };
  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    MemoryHandle handle;
  };
  static constexpr std::size_t kChain = 32;
  Size* size_for(std::uint32_t bytes);
  ibv_recv_wr* next_of(std::size_t i) noexcept { return i + 1 < kChain ? &requests_[i + 1] : nullptr; }
  bool grow(ibv_pd*, Size&, unsigned count);
  void post_one(Size& size, std::uint64_t tag) noexcept {
    const std::uint32_t place = size.first_free;
    const Place& at = places_[place];
    size.first_free = at.next_free;
    --size.free_count;
    const std::size_t last = unposted_++;
    pieces_[last] = at.piece;
    requests_[last].wr_id = tag | SharedQueue::kReceive | place;
    requests_[last].num_sge = at.piece.length == 0 ? 0 : 1;
  }

  bool short_ = false;
  std::vector<Place> places_;
  std::vector<Size> sizes_;
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> shown_;
  // Last requested size in bytes, and its index in sizes_. kNothing: no size was requested yet.
  static constexpr std::uint32_t kNothing = ~0U;
  std::uint32_t last_bytes_ = kNothing, last_size_ = 0;
  std::array<ibv_recv_wr, kChain> requests_;  // posted by one call, in a linked list
  std::array<ibv_sge, kChain> pieces_;
  std::size_t unposted_ = 0;
};

}  // namespace rtrs::verbs
