#include "core/tcp/tcp_receives.hpp"

#include <new>
#include <utility>

namespace rtrs::tcp {

void Receives::grow() {
  std::vector<std::uint32_t> larger(ring_.size() * 2);
  for (std::size_t at = first_; at != behind_; ++at)
    larger[at & (larger.size() - 1)] = ring_[at & (ring_.size() - 1)];
  ring_ = std::move(larger);
}

void Receives::post(std::uint32_t bytes) {
  if (behind_ - first_ == ring_.size()) grow();
  ring_[behind_++ & (ring_.size() - 1)] = bytes;
}

std::byte* Receives::take_buffer(std::uint32_t bytes) noexcept {
  try {
    if (free_.empty()) {
      buffers_.emplace_back();
      free_.reserve(buffers_.capacity());
      taken_.reserve(buffers_.capacity());
      free_.push_back(static_cast<std::uint32_t>(buffers_.size() - 1));
    }
    Buffer& buffer = buffers_[free_.back()];
    if (buffer.size < bytes) {
      buffer.bytes = std::make_unique<std::byte[]>(bytes);
      buffer.size = bytes;
    }
    taken_.push_back(free_.back());
    free_.pop_back();
    return buffer.bytes.get();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::optional<iwarp::MutableBytes> Receives::take() noexcept {
  if (first_ == behind_) return std::nullopt;
  const std::uint32_t bytes = ring_[first_ & (ring_.size() - 1)];
  std::byte* const place = bytes == 0 ? nullptr : take_buffer(bytes);
  if (bytes != 0 && place == nullptr) return std::nullopt;
  ++first_;
  return iwarp::MutableBytes(place, bytes);
}

void Receives::reuse(bool keep_last) noexcept {
  if (taken_.empty()) return;
  const std::uint32_t last = taken_.back();
  const std::size_t count = taken_.size() - (keep_last ? 1U : 0U);
  for (std::size_t i = 0; i < count; ++i) free_.push_back(taken_[i]);
  taken_.clear();
  if (keep_last) taken_.push_back(last);
}

}  // namespace rtrs::tcp
