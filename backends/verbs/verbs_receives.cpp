#include "backends/verbs/verbs_receives.hpp"

#include <algorithm>
#include <array>
#include <new>

namespace rtrs::verbs {
namespace {

constexpr std::uint32_t kAlignment = 64;
constexpr int kReceiveInto = IBV_ACCESS_LOCAL_WRITE;

}  // namespace

Receives::Receives(std::uint32_t depth) : depth_(depth) {
  places_.reserve(depth);
  shown_.reserve(depth);
}

Receives::Size* Receives::size_for(std::uint32_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const auto found =
      std::find_if(sizes_.begin(), sizes_.end(), [&](const Size& size) { return size.bytes == bytes; });
  if (found != sizes_.end()) return &*found;
  Size& size = sizes_.emplace_back();
  size.bytes = bytes;
  size.free.reserve(depth_);
  return &size;
}

bool Receives::grow(ibv_pd* domain, Size& size, unsigned count) {
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
      place.data = slab.memory.get() + std::size_t{size.bytes} * i;
      place.lkey = slab.handle->lkey;
    }
    size.free.push_back(static_cast<std::uint32_t>(places_.size()));
    places_.push_back(place);
  }
  if (size.bytes != 0) slabs_.push_back(std::move(slab));
  return true;
}

bool Receives::post(ibv_pd* domain, ibv_qp* qp, unsigned count, std::uint32_t bytes) noexcept try {
  Size& size = *size_for(bytes);
  short_ = size.free.size() < count && !grow(domain, size, count - static_cast<unsigned>(size.free.size()));
  if (short_) return false;
  constexpr unsigned kChain = 32;
  while (count > 0) {
    const unsigned now = std::min(count, kChain);
    std::array<ibv_recv_wr, kChain> requests;
    std::array<ibv_sge, kChain> pieces;
    for (unsigned i = 0; i < now; ++i) {
      const std::uint32_t place = size.free.back();
      size.free.pop_back();
      const Place& at = places_[place];
      pieces[i] = {.addr = reinterpret_cast<std::uintptr_t>(at.data), .length = size.bytes, .lkey = at.lkey};
      requests[i].wr_id = place;
      requests[i].sg_list = &pieces[i];
      requests[i].num_sge = size.bytes == 0 ? 0 : 1;
      requests[i].next = i + 1 < now ? &requests[i + 1] : nullptr;
    }
    ibv_recv_wr* refused = nullptr;
    if (ibv_post_recv(qp, requests.data(), &refused) != 0) return false;
    count -= now;
  }
  return true;
} catch (const std::bad_alloc&) {
  return !(short_ = true);
}

void Receives::reuse_shown() noexcept {
  for (const std::uint32_t place : shown_) free(place);
  shown_.clear();
}

}  // namespace rtrs::verbs
