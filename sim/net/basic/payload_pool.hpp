// Pool of byte buffers named by handles. Released buffers are reused, so that the pool allocates only until
// it has reached its maximum size. Handles stay valid in a copy of the pool.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rtrs::sim {

using PayloadId = std::uint32_t;
inline constexpr PayloadId kNoPayload = ~PayloadId{0};

class PayloadPool {
 public:
  PayloadId take(std::size_t bytes) {
    PayloadId id = kNoPayload;
    if (free_.empty()) {
      id = static_cast<PayloadId>(buffers_.size());
      buffers_.emplace_back();
    } else {
      id = free_.back();
      free_.pop_back();
    }
    buffers_[id].resize(bytes);
    return id;
  }
  PayloadId take(std::span<const std::byte> bytes) {
    const PayloadId id = take(bytes.size());
    buffers_[id].assign(bytes.begin(), bytes.end());
    return id;
  }
  // No effect for kNoPayload.
  void give_back(PayloadId id) {
    if (id != kNoPayload) free_.push_back(id);
  }
  // Valid until give_back(); empty for kNoPayload.
  std::span<std::byte> operator[](PayloadId id) noexcept {
    return id == kNoPayload ? std::span<std::byte>{} : std::span<std::byte>(buffers_[id]);
  }
  std::size_t in_use() const noexcept { return buffers_.size() - free_.size(); }

 private:
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<PayloadId> free_;
};

}  // namespace rtrs::sim
