// Generation of a permit inside the message id of a response, between peers that agreed on the generation
// extension. The 19-bit id holds the buffer id in its low bits and the low bits of the generation above it,
// so that a late response is not mistaken for the response to the next request on the same permit. Without
// the extension the id is the plain buffer id.
#pragma once
#include <bit>
#include <cstdint>

#include "core/wire/imm.hpp"

namespace rtrs {

// Bits of the generation that a message id carries: 8 up to a depth of 2048, never less than 3.
constexpr unsigned generation_bits(std::uint32_t queue_depth) noexcept {
  return static_cast<unsigned>(std::bit_width(wire::generation_mask(queue_depth)));
}
// Precondition: buf_id < queue_depth <= 65535. The generation is masked.
constexpr std::uint32_t pack_msg_id(std::uint32_t queue_depth, std::uint32_t buf_id,
                                    std::uint8_t generation) noexcept {
  return wire::tagged_msg_id(queue_depth, buf_id, generation);
}

struct MsgId {
  std::uint32_t buf_id = 0;     // may be >= queue_depth: the peer chose it
  std::uint8_t generation = 0;  // only the bits on the wire
  bool exact = false;           // no bit above the generation was set
  // True if this id answers the request with generation `full`, whose upper bits are not on the wire.
  constexpr bool answers(std::uint32_t queue_depth, std::uint8_t full) const noexcept {
    return exact && generation == (full & wire::generation_mask(queue_depth));
  }
};
constexpr MsgId unpack_msg_id(std::uint32_t queue_depth, std::uint32_t msg_id) noexcept {
  const wire::TaggedMsgId split = wire::split_msg_id(queue_depth, msg_id);
  return MsgId{split.buf_id, split.generation, split.exact};
}

}  // namespace rtrs
