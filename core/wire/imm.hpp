#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/wire/linux_errno.hpp"
#include "core/wire/refusal.hpp"

/// The 32-bit immediate of RTRS: type in the upper 4 bits, payload in the lower 28 bits (protocol section
/// 1.3). Values are in host byte order; imm_to_wire() and imm_from_wire() convert to and from big-endian.
namespace rtrs::wire {

inline constexpr unsigned kImmTypeBits = 4;
inline constexpr unsigned kImmPayloadBits = 28;
inline constexpr std::uint32_t kImmPayloadMask = (std::uint32_t{1} << kImmPayloadBits) - 1;
inline constexpr unsigned kMsgIdBits = 19;
inline constexpr std::uint32_t kMsgIdMask = (std::uint32_t{1} << kMsgIdBits) - 1;
/// Largest errno an IO response can carry.
inline constexpr std::uint32_t kImmMaxErrno = 511;
inline constexpr std::uint32_t kMaxQueueDepth = 65535;

enum class ImmType : std::uint8_t {
  io_req = 0,
  io_rsp = 1,
  io_rsp_w_inv = 2,  ///< response preceded by a SEND_WITH_INV on the same connection
  hb_msg = 8,
  hb_ack = 9,
};

/// Position of a request's RTRS header: offset `off` bytes in chunk `buf_id`.
struct IoReqImm {
  std::uint32_t buf_id = 0;
  std::uint32_t off = 0;
  bool operator==(const IoReqImm&) const = default;
};

struct IoRspImm {
  std::uint32_t msg_id = 0;  ///< at most 19 bits
  int error = 0;             ///< 0 or a positive errno up to 511
  bool invalidated = false;  ///< the type is io_rsp_w_inv
  bool operator==(const IoRspImm&) const = default;
};

/// Returns ceil(log2(n)); 0 for n <= 1.
[[nodiscard]] constexpr unsigned ceil_log2(std::uint64_t n) noexcept {
  return n <= 1 ? 0U : static_cast<unsigned>(std::bit_width(n - 1));
}

/// Returns the number of bits of the payload that hold the buffer id, for a queue depth of 1..65535: 0..16.
[[nodiscard]] constexpr unsigned chunk_bits(std::uint32_t queue_depth) noexcept {
  return ceil_log2(queue_depth);
}

/// Returns the number of bits of the payload that hold the offset inside the chunk: 12..28.
[[nodiscard]] constexpr unsigned mem_bits(std::uint32_t queue_depth) noexcept {
  return kImmPayloadBits - chunk_bits(queue_depth);
}

/// Returns the type field, which may be an unknown type (see known_imm_type()).
[[nodiscard]] constexpr ImmType imm_type(std::uint32_t imm) noexcept {
  return static_cast<ImmType>(imm >> kImmPayloadBits);
}

[[nodiscard]] constexpr bool known_imm_type(std::uint32_t imm) noexcept {
  switch (imm_type(imm)) {
    case ImmType::io_req:
    case ImmType::io_rsp:
    case ImmType::io_rsp_w_inv:
    case ImmType::hb_msg:
    case ImmType::hb_ack:
      return true;
  }
  return false;
}

/// Preconditions: buf_id < queue_depth <= 65535, off < 2^mem_bits(queue_depth). If they are violated, the
/// type is still IO_REQ.
[[nodiscard]] constexpr std::uint32_t encode_io_req(std::uint32_t queue_depth, std::uint32_t buf_id,
                                                    std::uint32_t off) noexcept {
  return ((buf_id << mem_bits(queue_depth)) | off) & kImmPayloadMask;
}

/// Splits the payload without checks: if the depth is not a power of two, `buf_id` may be >= queue_depth. See
/// check_io_req().
[[nodiscard]] constexpr IoReqImm decode_io_req(std::uint32_t queue_depth, std::uint32_t imm) noexcept {
  const std::uint32_t payload = imm & kImmPayloadMask;
  const unsigned bits = mem_bits(queue_depth);
  return IoReqImm{payload >> bits, payload & ((std::uint32_t{1} << bits) - 1)};
}

/// Performs the checks that a server makes before it reads the chunk (protocol section 2.7). Errors:
/// bad_immediate, bad_depth, bad_buffer_id or bad_offset.
[[nodiscard]] constexpr Parsed<IoReqImm> check_io_req(std::uint32_t queue_depth, std::uint32_t chunk_size,
                                                      std::uint32_t imm) noexcept {
  if (imm_type(imm) != ImmType::io_req) return refuse<IoReqImm>(Refusal::bad_immediate);
  if (queue_depth == 0 || queue_depth > kMaxQueueDepth) return refuse<IoReqImm>(Refusal::bad_depth);
  const IoReqImm request = decode_io_req(queue_depth, imm);
  if (request.buf_id >= queue_depth) return refuse<IoReqImm>(Refusal::bad_buffer_id);
  if (request.off >= chunk_size) return refuse<IoReqImm>(Refusal::bad_offset);
  return accept(request);
}

/// Encodes a response. `type` is io_rsp or io_rsp_w_inv; msg_id is truncated to 19 bits. `error` is 0 or a
/// positive errno. An errno that does not fit 9 bits becomes EIO, because truncating it could turn a failure
/// into a success.
[[nodiscard]] constexpr std::uint32_t encode_io_rsp(ImmType type, std::uint32_t msg_id, int error) noexcept {
  const bool fits = error >= 0 && error <= static_cast<int>(kImmMaxErrno);
  const auto number = static_cast<std::uint32_t>(fits ? error : linux_errno::kEio);
  return (static_cast<std::uint32_t>(type) << kImmPayloadBits) | (number << kMsgIdBits) |
         (msg_id & kMsgIdMask);
}

/// Precondition: imm_type(imm) is io_rsp or io_rsp_w_inv.
[[nodiscard]] constexpr IoRspImm decode_io_rsp(std::uint32_t imm) noexcept {
  return IoRspImm{imm & kMsgIdMask, static_cast<int>((imm >> kMsgIdBits) & kImmMaxErrno),
                  imm_type(imm) == ImmType::io_rsp_w_inv};
}

/// Encodes a heartbeat. `type` is hb_msg or hb_ack.
[[nodiscard]] constexpr std::uint32_t encode_hb(ImmType type) noexcept {
  return static_cast<std::uint32_t>(type) << kImmPayloadBits;
}

// If the peers negotiated permit generations, the 19-bit message id of a response contains low bits of the
// generation above the buffer id: 8 bits up to a depth of 2048, fewer (at least 3) for larger depths.
// RKEY_RSP contains the plain buffer id.

[[nodiscard]] constexpr std::uint8_t generation_mask(std::uint32_t queue_depth) noexcept {
  const unsigned spare = kMsgIdBits - chunk_bits(queue_depth);
  return static_cast<std::uint8_t>(spare >= 8 ? 0xffU : (1U << spare) - 1U);
}

/// Precondition: buf_id < queue_depth <= 65535.
[[nodiscard]] constexpr std::uint32_t tagged_msg_id(std::uint32_t queue_depth, std::uint32_t buf_id,
                                                    std::uint8_t generation) noexcept {
  const auto tag = static_cast<std::uint32_t>(generation & generation_mask(queue_depth));
  return (tag << chunk_bits(queue_depth)) | buf_id;
}

struct TaggedMsgId {
  std::uint32_t buf_id = 0;     ///< can be >= queue_depth if the depth is not a power of two
  std::uint8_t generation = 0;  ///< compare only the bits in generation_mask
  bool exact = false;           ///< no bit above the tag is set
  /// True if this id belongs to the response for the request with generation `full`, whose upper bits are not
  /// on the wire.
  [[nodiscard]] constexpr bool answers(std::uint32_t queue_depth, std::uint8_t full) const noexcept {
    return exact && generation == (full & generation_mask(queue_depth));
  }
  bool operator==(const TaggedMsgId&) const = default;
};

[[nodiscard]] constexpr TaggedMsgId split_msg_id(std::uint32_t queue_depth, std::uint32_t msg_id) noexcept {
  const unsigned bits = chunk_bits(queue_depth);
  const std::uint32_t tag = (msg_id & kMsgIdMask) >> bits;
  return TaggedMsgId{msg_id & ((std::uint32_t{1} << bits) - 1),
                     static_cast<std::uint8_t>(tag & generation_mask(queue_depth)),
                     tag <= generation_mask(queue_depth)};
}

[[nodiscard]] constexpr std::array<std::byte, 4> imm_to_wire(std::uint32_t imm) noexcept {
  return {static_cast<std::byte>(imm >> 24), static_cast<std::byte>((imm >> 16) & 0xffU),
          static_cast<std::byte>((imm >> 8) & 0xffU), static_cast<std::byte>(imm & 0xffU)};
}

[[nodiscard]] constexpr std::uint32_t imm_from_wire(const std::array<std::byte, 4>& wire) noexcept {
  std::uint32_t imm = 0;
  for (const std::byte byte : wire) imm = (imm << 8) | std::to_integer<std::uint32_t>(byte);
  return imm;
}

}  // namespace rtrs::wire
