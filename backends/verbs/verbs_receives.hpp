// Where a connection receives into: buffers in slabs, each slab registered once, and places for receives
// without a buffer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/verbs/verbs_handles.hpp"

namespace rtrs::verbs {

class Receives {
 public:
  explicit Receives(std::uint32_t depth);

  // Takes up to `count` free places with at least `bytes` each, makes more where they run out, and posts a
  // receive into each. False: no memory, or the queue pair took not all.
  bool post(ibv_pd*, ibv_qp*, unsigned count, std::uint32_t bytes) noexcept;
  bool short_of_memory() const noexcept { return short_; }
  std::span<const std::byte> bytes(std::uint32_t place, std::uint32_t length) const noexcept {
    return {places_[place].data, length};
  }
  void free(std::uint32_t place) noexcept { sizes_[places_[place].size].free.push_back(place); }
  // A place whose bytes are being looked at is free after the next reuse_shown().
  void show(std::uint32_t place) noexcept { shown_.push_back(place); }
  void reuse_shown() noexcept;
  bool has_shown() const noexcept { return !shown_.empty(); }

 private:
  struct Place {
    std::byte* data = nullptr;
    std::uint32_t lkey = 0;
    std::uint32_t size = 0;  // index in sizes_
  };
  struct Size {
    std::uint32_t bytes = 0;
    std::vector<std::uint32_t> free;
  };
  struct Slab {
    std::unique_ptr<std::byte[]> memory;
    MemoryHandle handle;
  };
  Size* size_for(std::uint32_t bytes);
  bool grow(ibv_pd*, Size&, unsigned count);

  std::uint32_t depth_;
  bool short_ = false;
  std::vector<Place> places_;
  std::vector<Size> sizes_;
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> shown_;
};

}  // namespace rtrs::verbs
