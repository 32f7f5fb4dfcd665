// Where a connection receives into: buffers in slabs, each slab registered once, and places for receives
// without a buffer.
#pragma once
#include <array>
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

  // Takes `count` free places with at least `bytes` each, makes more where they run out, and has a receive
  // into each posted by flush(), with `tag` in front of the number of its place. False: no memory, or the
  // queue pair took not all.
  bool post(ibv_pd*, ibv_qp*, std::uint64_t tag, unsigned count, std::uint32_t bytes) noexcept;
  bool short_of_memory() const noexcept { return short_; }
  bool flush(ibv_qp*) noexcept;
  bool has_unposted() const noexcept { return unposted_ != 0; }
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
  static constexpr std::size_t kChain = 32;
  Size* size_for(std::uint32_t bytes);
  bool grow(ibv_pd*, Size&, unsigned count);

  std::uint32_t depth_;
  bool short_ = false;
  std::vector<Place> places_;
  std::vector<Size> sizes_;
  std::vector<Slab> slabs_;
  std::vector<std::uint32_t> shown_;
  std::array<ibv_recv_wr, kChain> requests_;  // that go to the device by one call
  std::array<ibv_sge, kChain> pieces_;
  std::size_t unposted_ = 0;
};

}  // namespace rtrs::verbs
