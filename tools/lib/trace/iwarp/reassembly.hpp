// One direction of a TCP connection. Takes segments in capture order and returns bytes in the order of
// sequence numbers. Drops retransmissions. Bytes that the receiver acknowledged, or that the capture cut off,
// but that no segment contains, are lost.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "tools/lib/trace/iwarp/segment.hpp"

namespace rtrs::iwarp_capture {

// Sequence number, extended beyond 32 bits so that it never wraps.
using Position = std::uint64_t;

// The next bytes of a direction, or the number of lost bytes. Both are empty if neither is known yet.
struct Piece {
  Bytes bytes;
  std::uint64_t lost = 0;
  [[nodiscard]] bool empty() const noexcept { return bytes.empty() && lost == 0; }
};

class Reassembly {
 public:
  // Maximum number of bytes that wait for missing bytes, with the cost of each segment. If they exceed it,
  // the missing bytes count as lost.
  static constexpr std::size_t kMaxWaiting = std::size_t{32} << 20;
  // TCP windows are not larger. Segments and acknowledgements beyond it are invalid and ignored.
  static constexpr std::uint64_t kMaxWindow = std::uint64_t{1} << 30;

  // `first`: sequence number of the first byte.
  explicit Reassembly(std::uint32_t first) noexcept;

  // Adds the payload of a segment. Returns false if it contains nothing new.
  bool add(Segment&& segment);
  // Call when the receiver has acknowledged all bytes before `number`.
  void acknowledged_before(std::uint32_t number) noexcept;
  // Returns the first position that is not known to have arrived.
  [[nodiscard]] Position acknowledged() const noexcept { return acknowledged_; }

  // Returns the next piece; the same one until consume() is called. Its bytes are valid until the next call
  // of a non-const function.
  [[nodiscard]] Piece front();
  // Removes the first `size` bytes of front(), or all of its lost bytes.
  void consume(std::size_t size) noexcept;
  // Position of front().
  [[nodiscard]] Position next() const noexcept { return next_; }
  // True if all bytes before the FIN were consumed.
  [[nodiscard]] bool finished() const noexcept { return fin_ && next_ >= *fin_; }
  // True if more bytes wait than may.
  [[nodiscard]] bool full() const noexcept { return waiting_bytes_ > kMaxWaiting; }
  // Call after the last segment: acknowledged bytes that are missing are now lost.
  void finish() noexcept;

 private:
  struct Part {
    std::vector<std::byte> bytes;
    std::uint32_t cut = 0;
  };

  [[nodiscard]] Position unwrap(std::uint32_t number) const noexcept;
  [[nodiscard]] Position lost_until() const noexcept;
  void drop_first() noexcept;

  Position next_;
  Position acknowledged_;
  Position missing_until_;  // bytes before this position that do not wait are lost
  std::optional<Position> fin_;
  std::map<Position, Part> waiting_;
  std::size_t waiting_bytes_ = 0;
};

}  // namespace rtrs::iwarp_capture
