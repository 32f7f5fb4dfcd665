#include "backends/verbs/verbs_receives.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace rtrs::verbs {
namespace {

constexpr std::uint32_t kAlignment = 64;
constexpr int kReceiveInto = IBV_ACCESS_LOCAL_WRITE;

}  // namespace

Receives::Receives(std::uint32_t depth) {
  places_.reserve(depth);
  shown_.reserve(depth);
  for (std::size_t i = 0; i < kChain; ++i)
    requests_[i] = {.wr_id = 0, .next = next_of(i), .sg_list = &pieces_[i], .num_sge = 0};
}

Receives::Size* Receives::size_for(std::uint32_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const auto found =
      std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& size) { return size.bytes == bytes; });
  if (found != sizes_.end()) return &*found;
  Size& size = sizes_.emplace_back();
  size.bytes = bytes;
  return &size;
}

bool Receives::grow(ibv_pd* domain, Size& size, unsigned count) {
  if (places_.size() + count > SharedQueue::kNumbers) return false;
  Slab slab;
  if (size.bytes != 0) {
    const std::size_t total = std::size_t{size.bytes} * count;
    slab.memory.reset(new (std::nothrow) std::byte[total]);
    if (slab.memory == nullptr) return false;
    slab.handle.reset(ibv_reg_mr(domain, slab.memory.get(), total, kReceiveInto));
    if (slab.handle == nullptr) return false;
  }
  for (unsigned i = 0; i < count; ++i) {
    Place place;
    place.size = static_cast<std::uint32_t>(&size - sizes_.data());
    if (size.bytes != 0) {
      const std::byte* const start = slab.memory.get() + std::size_t{size.bytes} * i;
      place.piece = {
          .addr = reinterpret_cast<std::uintptr_t>(start), .length = size.bytes, .lkey = slab.handle->lkey};
    }
    places_.push_back(place);
    free(static_cast<std::uint32_t>(places_.size() - 1));
  }
  if (size.bytes != 0) slabs_.push_back(std::move(slab));
  return true;
}

bool Receives::post(ibv_pd* domain, ibv_qp* qp, std::uint64_t tag, unsigned count,
                    std::uint32_t bytes) noexcept try {
  Size& size = *size_for(bytes);
  short_ = size.free_count < count && !grow(domain, size, count - size.free_count);
  if (short_) return false;
  for (; count > 0; --count) {
    if (unposted_ == kChain && !flush(qp)) return false;
    post_one(size, tag);
  }
  last_bytes_ = bytes;
  last_size_ = static_cast<std::uint32_t>(&size - sizes_.data());
  return true;
} catch (const std::bad_alloc&) {
  return !(short_ = true);
}

bool Receives::flush(ibv_qp* qp) noexcept {
  const std::size_t last = std::exchange(unposted_, 0) - 1;
  requests_[last].next = nullptr;
  ibv_recv_wr* refused = nullptr;
  const int error = ibv_post_recv(qp, requests_.data(), &refused);
  requests_[last].next = next_of(last);
  return error == 0;
}

void Receives::reuse_shown() noexcept {
  for (const std::uint32_t place : shown_) free(place);
  shown_.clear();
}

}  // namespace rtrs::verbs
