// Receives of one connection, in the order of posting. A posted receive costs an entry of the ring. A message
// gets its buffer when it arrives, so a connection has no more buffers than messages that it reports at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/iwarp/layout.hpp"

namespace rtrs::tcp {

class Receives {
 public:
  // May throw std::bad_alloc.
  void post(std::uint32_t bytes);
  // Takes the oldest receive; fails if none is posted, or if there is no memory for its buffer. The bytes
  // stay valid until reuse().
  std::optional<iwarp::MutableBytes> take() noexcept;
  // The messages reported so far are read by the caller until its next poll, then reuse() is called.
  [[nodiscard]] bool has_taken() const noexcept { return !taken_.empty(); }
  // `keep_last`: the one taken last belongs to a message that is not whole.
  void reuse(bool keep_last) noexcept;

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::uint32_t size = 0;
  };
  static constexpr std::size_t kFirstRing = 16;
  void grow();
  // Null: no memory.
  std::byte* take_buffer(std::uint32_t bytes) noexcept;

  std::vector<std::uint32_t> ring_ = std::vector<std::uint32_t>(kFirstRing);  // bytes; a power of two
  std::size_t first_ = 0;
  std::size_t behind_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> taken_;
};

}  // namespace rtrs::tcp
