#include "core/iwarp/writer.hpp"

#include <algorithm>
#include <cstring>

#include "core/base/crc32c.hpp"

namespace rtrs::iwarp {
namespace {

std::size_t total_of(std::span<const Bytes> parts) noexcept {
  std::size_t total = 0;
  for (const Bytes& part : parts) total += part.size();
  return total;
}

// Iterates over the payload of a write, part by part.
class Walk {
 public:
  explicit Walk(std::span<const Bytes> parts) noexcept : parts_(parts) {}
  // Returns the next contiguous bytes, at most `most`; not empty while any are left.
  Bytes next(std::size_t most) noexcept {
    while (at_ == parts_.front().size()) {
      parts_ = parts_.subspan(1);
      at_ = 0;
    }
    const Bytes found = parts_.front().subspan(at_, std::min(most, parts_.front().size() - at_));
    at_ += found.size();
    return found;
  }

 private:
  std::span<const Bytes> parts_;
  std::size_t at_ = 0;
};

std::byte* put_control(std::byte* at, std::size_t ulpdu, unsigned ddp, Opcode opcode) noexcept {
  store_be(at, static_cast<std::uint16_t>(ulpdu));
  at[2] = static_cast<std::byte>(ddp | kDdpVersion);
  at[3] = static_cast<std::byte>(kRdmapVersion | static_cast<unsigned>(opcode));
  return at + 4;
}

void put_crc(std::byte* at, std::uint32_t crc) noexcept {
  for (unsigned i = 0; i < kCrcBytes; ++i) at[i] = static_cast<std::byte>(crc >> (8 * i));
}

}  // namespace

void Writer::segments(std::uint32_t key, std::uint64_t to, std::span<const Bytes> parts, std::size_t total,
                      Outgoing& out) noexcept {
  Walk walk(parts);
  do {
    const std::size_t n = std::min(total, kSegmentBytes);
    const std::size_t ulpdu = kTaggedBytes + n;
    std::byte* const header = out.add(kLengthBytes + kTaggedBytes);
    std::byte* const at = put_control(header, ulpdu, kTagged | (n == total ? kLast : 0U), Opcode::write);
    store_be(at, key);
    store_be(at + sizeof key, to);
    std::uint32_t crc = crc_ ? crc32c(header, kLengthBytes + kTaggedBytes) : 0;
    for (std::size_t left = n; left != 0;) {
      const Bytes piece = walk.next(left);
      out.add_payload(piece);
      if (crc_) crc = crc32c(piece.data(), piece.size(), crc);
      left -= piece.size();
    }
    const std::size_t zeroes = padding(ulpdu);
    std::byte* const trailer = out.add(zeroes + kCrcBytes);
    std::fill_n(trailer, zeroes, std::byte{0});
    put_crc(trailer + zeroes, crc_ ? crc32c(trailer, zeroes, crc) : 0);
    to += n;
    total -= n;
  } while (total != 0);
}

// Writes an untagged message with a copy of `payload`.
void Writer::untagged(Opcode opcode, std::uint32_t field, std::uint32_t queue, std::uint32_t number,
                      std::size_t offset, bool last, Bytes payload, Outgoing& out) noexcept {
  const std::size_t ulpdu = kUntaggedBytes + payload.size();
  const std::size_t covered = kLengthBytes + ulpdu + padding(ulpdu);
  std::byte* const fpdu = out.add(covered + kCrcBytes);
  std::byte* at = put_control(fpdu, ulpdu, last ? kLast : 0U, opcode);
  for (const std::uint32_t value : {field, queue, number, static_cast<std::uint32_t>(offset)}) {
    store_be(at, value);
    at += sizeof value;
  }
  if (!payload.empty()) std::memcpy(at, payload.data(), payload.size());
  std::fill_n(at + payload.size(), padding(ulpdu), std::byte{0});
  put_crc(fpdu + covered, crc_ ? crc32c(fpdu, covered) : 0);
}

bool Writer::empty_write(Outgoing& out) noexcept {
  if (!out.has_room(kRoomForControl.arena_bytes, kRoomForControl.pieces)) return false;
  segments(0, 0, {}, 0, out);
  return true;
}

[[gnu::flatten]] bool Writer::write(std::uint32_t key, std::uint64_t to, std::span<const Bytes> parts,
                                    Outgoing& out) noexcept {
  RTRS_ASSERT(parts.size() <= kMaxParts);
  const std::size_t total = total_of(parts);
  const Room room = room_for_write(total);
  if (!out.has_room(room.arena_bytes, room.pieces)) return false;
  if (total == 0)
    segments(0, 0, {}, 0, out);
  else
    segments(key, to, parts, total, out);
  return true;
}

[[gnu::flatten]] bool Writer::write_immediate(std::uint32_t key, std::uint64_t to,
                                              std::span<const Bytes> parts, std::uint32_t imm,
                                              Outgoing& out) noexcept {
  RTRS_ASSERT(parts.size() <= kMaxParts);
  const std::size_t total = total_of(parts);
  const Room room = room_for_write(total);
  if (!out.has_room(room.arena_bytes, room.pieces)) return false;
  if (total != 0) segments(key, to, parts, total, out);
  std::byte payload[kImmediateBytes] = {};
  store_be(payload, imm);
  untagged(Opcode::immediate, 0, kSendQueue, number_++, 0, true, payload, out);
  return true;
}

bool Writer::send(Bytes payload, Outgoing& out) noexcept {
  return send_any(Opcode::send, 0, payload, out);
}

bool Writer::send_immediate(Bytes payload, std::uint32_t imm, Outgoing& out) noexcept {
  return send_any(Opcode::send_solicited, imm, payload, out);
}

bool Writer::send_invalidate(std::uint32_t key, Outgoing& out) noexcept {
  return send_any(Opcode::send_invalidate, key, {}, out);
}

[[gnu::flatten]] bool Writer::send_any(Opcode opcode, std::uint32_t field, Bytes payload,
                                       Outgoing& out) noexcept {
  const Room room = room_for_send(payload.size());
  if (!out.has_room(room.arena_bytes, room.pieces)) return false;
  std::size_t offset = 0;
  do {
    const Bytes segment = payload.subspan(offset, std::min(payload.size() - offset, kSegmentBytes));
    const bool last = offset + segment.size() == payload.size();
    untagged(opcode, field, kSendQueue, number_, offset, last, segment, out);
    offset += segment.size();
  } while (offset != payload.size());
  ++number_;
  return true;
}

bool Writer::terminate(Fault fault, Outgoing& out) noexcept {
  RTRS_ASSERT(answer_to(fault) == Answer::terminate);
  if (!out.has_room(kRoomForControl.arena_bytes, kRoomForControl.pieces)) return false;
  const TerminateCode code = terminate_code(fault);
  const std::byte payload[kTerminateBytes] = {static_cast<std::byte>(code.layer << 4U | code.type),
                                              static_cast<std::byte>(code.code)};
  untagged(Opcode::terminate, 0, kTerminateQueue, kFirstNumber, 0, true, payload, out);
  return true;
}

}  // namespace rtrs::iwarp
