// FIFO queue of bytes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace rtrs::sim {

class ByteQueue {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() - first_; }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::span<std::byte> all() noexcept { return std::span(bytes_).subspan(first_); }
  void push(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void drop(std::size_t count) {
    first_ += count;
    if (first_ * 2 < bytes_.size()) return;
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  // Moves up to `to.size()` bytes out of the queue. Returns the number of bytes moved.
  std::size_t take(std::span<std::byte> to) {
    const std::size_t count = std::min(size(), to.size());
    if (count != 0) std::memcpy(to.data(), bytes_.data() + first_, count);
    drop(count);
    return count;
  }
  void clear() noexcept {
    bytes_.clear();
    first_ = 0;
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t first_ = 0;
};

}  // namespace rtrs::sim
