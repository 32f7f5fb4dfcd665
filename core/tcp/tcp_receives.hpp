// Receives of one connection, in the order of posting. Those of no octets cost an entry of the ring.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/assert.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::tcp {

class Receives {
 public:
  explicit Receives(std::size_t depth) : ring_(round_up(depth)) {}

  // May throw std::bad_alloc. Returns the octets of memory that it took beyond what it had.
  std::size_t post(std::uint32_t bytes);
  // The oldest. What it names stays until reuse() after done().
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
  struct Entry {
    std::uint32_t buffer = kNone;
    std::uint32_t bytes = 0;
  };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static std::size_t round_up(std::size_t depth) {
    std::size_t size = 16;
    while (size < depth) size *= 2;
    return size;
  }
  void grow();

  std::vector<Entry> ring_;  // a power of two
  std::size_t first_ = 0;
  std::size_t behind_ = 0;
  std::vector<Buffer> buffers_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> taken_;
};

}  // namespace rtrs::tcp
