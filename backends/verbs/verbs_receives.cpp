#include "backends/verbs/verbs_receives.hpp"

#include <algorithm>
#include <new>

#include "backends/verbs/verbs_queue.hpp"

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
      place.data = slab.memory.get() + std::size_t{size.bytes} * i;
      place.lkey = slab.handle->lkey;
    }
    size.free.push_back(static_cast<std::uint32_t>(places_.size()));
    places_.push_back(place);
  }
  if (size.bytes != 0) slabs_.push_back(std::move(slab));
  return true;
}

bool Receives::post(ibv_pd* domain, ibv_qp* qp, std::uint64_t tag, unsigned count,
                    std::uint32_t bytes) noexcept try {
  Size& size = *size_for(bytes);
  short_ = size.free.size() < count && !grow(domain, size, count - static_cast<unsigned>(size.free.size()));
  if (short_) return false;
  for (; count > 0; --count) {
    if (unposted_ == kChain && !flush(qp)) return false;
    const std::uint32_t place = size.free.back();
    size.free.pop_back();
    const Place& at = places_[place];
    ibv_recv_wr& request = requests_[unposted_];
    ibv_sge& piece = pieces_[unposted_];
    piece = {.addr = reinterpret_cast<std::uintptr_t>(at.data), .length = size.bytes, .lkey = at.lkey};
    request = {.wr_id = tag | SharedQueue::kReceive | place,
               .next = nullptr,
               .sg_list = &piece,
               .num_sge = size.bytes == 0 ? 0 : 1};
    if (unposted_ != 0) requests_[unposted_ - 1].next = &request;
    ++unposted_;
  }
  return true;
} catch (const std::bad_alloc&) {
  return !(short_ = true);
}

bool Receives::flush(ibv_qp* qp) noexcept {
  unposted_ = 0;
  ibv_recv_wr* refused = nullptr;
  return ibv_post_recv(qp, requests_.data(), &refused) == 0;
}

void Receives::reuse_shown() noexcept {
  for (const std::uint32_t place : shown_) free(place);
  shown_.clear();
}

}  // namespace rtrs::verbs
