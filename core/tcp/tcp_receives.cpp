#include "core/tcp/tcp_receives.hpp"

#include <algorithm>
#include <utility>

namespace rtrs::tcp {

void Receives::grow() {
  std::vector<Entry> larger(ring_.size() * 2);
  for (std::size_t at = first_; at != behind_; ++at)
    larger[at & (larger.size() - 1)] = ring_[at & (ring_.size() - 1)];
  ring_ = std::move(larger);
}

std::size_t Receives::post(std::uint32_t bytes) {
  if (behind_ - first_ == ring_.size()) grow();
  Entry entry{.buffer = kNone, .bytes = bytes};
  std::size_t grown = 0;
  if (bytes != 0) {
    if (free_.empty()) {
      buffers_.emplace_back();
      free_.reserve(buffers_.capacity());
      taken_.reserve(buffers_.capacity());
      free_.push_back(static_cast<std::uint32_t>(buffers_.size() - 1));
    }
    Buffer& buffer = buffers_[free_.back()];
    if (buffer.size < bytes) {
      buffer.bytes = std::make_unique<std::byte[]>(bytes);
      grown = bytes - buffer.size;
      buffer.size = bytes;
    }
    entry.buffer = free_.back();
    free_.pop_back();
  }
  ring_[behind_++ & (ring_.size() - 1)] = entry;
  return grown;
}

std::optional<iwarp::MutableBytes> Receives::take() noexcept {
  if (first_ == behind_) return std::nullopt;
  const Entry entry = ring_[first_++ & (ring_.size() - 1)];
  if (entry.buffer == kNone) return iwarp::MutableBytes{};
  taken_.push_back(entry.buffer);
  return iwarp::MutableBytes(buffers_[entry.buffer].bytes.get(), entry.bytes);
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
