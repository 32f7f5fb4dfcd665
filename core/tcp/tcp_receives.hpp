// Receives of one connection, in posting order. A posted receive costs one ring entry. A buffer is assigned
// when a message arrives, so a connection needs only as many buffers as messages that it reports at once.
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
  // Posts a receive. May throw std::bad_alloc.
  void post(std::uint32_t bytes);
  // Takes the oldest receive. Returns nullopt if none is posted or there is no memory for its buffer. The
  // bytes stay valid until reuse().
  std::optional<iwarp::MutableBytes> take() noexcept;
  // True if reported messages are in use: the caller reads them until its next poll, then reuse() is called.
  [[nodiscard]] bool has_taken() const noexcept { return !taken_.empty(); }
  // Frees the buffers of the taken receives. `keep_last`: the receive that was taken last belongs to an
  // incomplete message.
  void reuse(bool keep_last) noexcept;

 private:
  struct Buffer {
    std::unique_ptr<std::byte[]> bytes;
    std::uint32_t size = 0;
  };
  static constexpr std::size_t kFirstRing = 16;
  void grow();
  // Returns null if there is no memory.
  std::byte* take_buffer(std::uint32_t bytes) noexcept;

  std::vector<std::uint32_t> ring_ =
      std::vector<std::uint32_t>(kFirstRing);  // size in bytes of each receive; ring size is a power of two
  std::size_t first_ = 0;
  std::size_t behind_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> taken_;
};

}  // namespace rtrs::tcp
