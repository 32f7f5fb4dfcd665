// The sending half of a connection: turns requests into pieces for one gathering send call.
//
// Headers, padding, CRC and the payload of SENDs are written into the caller's arena; the payload of writes
// stays in place. Adjacent pieces are merged, even across requests. A value; no allocation, clock or threads.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/assert.hpp"
#include "core/iwarp/fault.hpp"
#include "core/iwarp/layout.hpp"

namespace rtrs::iwarp {

// Maximum payload in bytes of a segment; all segments of a message except the last have this size.
inline constexpr std::size_t kSegmentBytes = std::size_t{60} << 10U;

// Data to send, in order. Arena and list belong to the caller and must stay valid until the pieces are sent;
// then call clear(). Size the arena for the data of one poll round.
class Outgoing {
 public:
  Outgoing(MutableBytes arena, std::span<Bytes> pieces) noexcept : arena_(arena), pieces_(pieces) {}
  [[nodiscard]] std::span<const Bytes> pieces() const noexcept { return pieces_.first(count_); }
  [[nodiscard]] std::size_t total_bytes() const noexcept { return total_; }
  void clear() noexcept { used_ = count_ = total_ = 0; }
  [[nodiscard]] bool has_room(std::size_t arena_bytes, std::size_t pieces) const noexcept {
    return arena_bytes <= arena_.size() - used_ && pieces <= pieces_.size() - count_;
  }

  // Appends `size` bytes of the arena to the data to send; called by Writer. Precondition: there is room.
  std::byte* add(std::size_t size) noexcept;
  void add_payload(Bytes payload) noexcept;

 private:
  void append(Bytes bytes) noexcept;

  MutableBytes arena_;
  std::span<Bytes> pieces_;
  std::size_t used_ = 0;
  std::size_t count_ = 0;
  std::size_t total_ = 0;
};

inline std::byte* Outgoing::add(std::size_t size) noexcept {
  RTRS_ASSERT(size <= arena_.size() - used_);
  std::byte* const at = arena_.data() + used_;
  used_ += size;
  append({at, size});
  return at;
}

inline void Outgoing::add_payload(Bytes payload) noexcept {
  append(payload);
}

inline void Outgoing::append(Bytes bytes) noexcept {
  if (bytes.empty()) return;
  total_ += bytes.size();
  if (count_ != 0) {
    Bytes& before = pieces_[count_ - 1];
    if (before.data() + before.size() == bytes.data()) {
      before = {before.data(), before.size() + bytes.size()};
      return;
    }
  }
  RTRS_ASSERT(count_ < pieces_.size());
  pieces_[count_++] = bytes;
}

// Maximum space that a request takes in an Outgoing.
struct Room {
  std::size_t arena_bytes = 0;
  std::size_t pieces = 0;
};
inline constexpr std::size_t kMaxParts = 3;  // maximum number of payload parts in one write

constexpr std::size_t segments_of(std::size_t payload) noexcept {
  return payload <= kSegmentBytes ? 1 : (payload + kSegmentBytes - 1) / kSegmentBytes;
}
// Returns the maximum space that a write takes, with or without immediate.
constexpr Room room_for_write(std::size_t payload) noexcept {
  const std::size_t segments = segments_of(payload);
  const std::size_t each = kLengthBytes + kTaggedBytes + 3 + kCrcBytes;
  // Pieces: per segment one header and one payload, one more per change of part, and the trailer of the last
  // segment.
  return {segments * each + fpdu_bytes(kUntaggedBytes + kImmediateBytes), 2 * segments + kMaxParts};
}
// Returns the maximum space that a SEND of any kind takes.
constexpr Room room_for_send(std::size_t payload) noexcept {
  return {segments_of(payload) * (kMaxHeaderBytes + 3 + kCrcBytes) + payload, 1};
}
// Maximum space that an empty write or a Terminate message takes.
inline constexpr Room kRoomForControl{fpdu_bytes(kUntaggedBytes + kTerminateBytes), 1};

// Each function writes one request and returns true. Without room, a function returns false and changes
// nothing.
class Writer {
 public:
  // `first_number`: message sequence number of the first message; only tests set a value other than 1.
  explicit Writer(bool crc, std::uint32_t first_number = kFirstNumber) noexcept
      : crc_(crc), number_(first_number) {}

  // Writes the first FPDU of an initiator, which lets the responder send. Also valid at any later time.
  [[nodiscard]] bool empty_write(Outgoing& out) noexcept;
  // Writes `parts` (at most kMaxParts) consecutively to tagged offset `to` of the peer's key. The memory must
  // stay unchanged until the pieces are sent. An empty write is sent without a key.
  [[nodiscard]] bool write(std::uint32_t key, std::uint64_t to, std::span<const Bytes> parts,
                           Outgoing& out) noexcept;
  // Like write(), followed by an immediate. Sends only the immediate if there is no payload.
  [[nodiscard]] bool write_immediate(std::uint32_t key, std::uint64_t to, std::span<const Bytes> parts,
                                     std::uint32_t imm, Outgoing& out) noexcept;
  // Copies `payload`. More than kSegmentBytes are sent as several segments.
  [[nodiscard]] bool send(Bytes payload, Outgoing& out) noexcept;
  // Like send(), with an immediate. Precondition: both peers agreed to it (greeting.hpp).
  [[nodiscard]] bool send_immediate(Bytes payload, std::uint32_t imm, Outgoing& out) noexcept;
  [[nodiscard]] bool send_invalidate(std::uint32_t key, Outgoing& out) noexcept;
  // Writes the last message of a stream; nothing may be sent after it. Precondition: answer_to(fault) is
  // `terminate`.
  [[nodiscard]] bool terminate(Fault fault, Outgoing& out) noexcept;

 private:
  [[nodiscard]] bool send_any(Opcode opcode, std::uint32_t field, Bytes payload, Outgoing& out) noexcept;
  void segments(std::uint32_t key, std::uint64_t to, std::span<const Bytes> parts, std::size_t total,
                Outgoing& out) noexcept;
  void untagged(Opcode opcode, std::uint32_t field, std::uint32_t queue, std::uint32_t number,
                std::size_t offset, bool last, Bytes payload, Outgoing& out) noexcept;

  bool crc_;
  std::uint32_t number_;  // sequence number of the next message
};

}  // namespace rtrs::iwarp
