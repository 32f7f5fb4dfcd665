#pragma once

#include <cstdint>

namespace rtrs::wire {

/// Reason why a received message was refused. Logs and statistics use the word of to_string(). Traces store
/// the number: append new reasons at the end, never renumber.
enum class Refusal : std::uint8_t {
  none = 0,
  too_short,                ///< fewer bytes than the message needs
  bad_magic,                ///< not an RTRS message
  bad_version,              ///< another major protocol version
  bad_type,                 ///< not the expected message, or an unknown one
  bad_errno,                ///< an error number outside 0..4095
  bad_cid,                  ///< connection id not below the number of connections
  bad_cid_num,              ///< 0 connections or more than 4096
  bad_name,                 ///< empty, unterminated, or with characters that are not allowed
  bad_count,                ///< an impossible count of descriptors or sectors
  bad_length,               ///< a length that contradicts the rest of the message
  bad_key,                  ///< an impossible memory key
  bad_offset,               ///< the header is not inside the chunk, or a sector is beyond 2^54
  bad_buffer_id,            ///< buffer id not below the queue depth
  bad_user_length,          ///< more user header bytes than lie before the RTRS header
  bad_sg_count,             ///< a read with more than one descriptor
  bad_descriptor,           ///< descriptor length 0, too long, not a multiple of the chunk, or address wrap
  bad_depth,                ///< queue depth 0 or above 65535
  bad_chunk_size,           ///< size 0 or without room for headers; or depth and size exceed 28 bits
  bad_immediate,            ///< immediate of an unknown type
  bad_opcode,               ///< unknown RNBD operation
  bad_access_mode,          ///< unknown RNBD access mode
  bad_direction,            ///< RNBD operation carried by an RTRS request of the wrong direction
  bad_block_size,           ///< logical block size not a power of two from 512
  unnegotiated_generation,  ///< a permit generation from a peer that did not negotiate it
  bad_uuid,                 ///< an identity of all zeroes: clients without an identity would share a session
};

inline constexpr unsigned kRefusalCount = static_cast<unsigned>(Refusal::bad_uuid) + 1;

/// Returns a static string, never null; "unknown" for a number that is not a refusal.
[[nodiscard]] const char* to_string(Refusal why) noexcept;

/// A parsed message or the reason it was refused. If the message is refused, `value` is default-initialised,
/// unless the parse function says otherwise.
template <class T>
struct Parsed {
  Refusal why = Refusal::none;
  T value{};

  [[nodiscard]] constexpr explicit operator bool() const noexcept { return why == Refusal::none; }
};

template <class T>
[[nodiscard]] constexpr Parsed<T> refuse(Refusal why) noexcept {
  Parsed<T> refused;
  refused.why = why;
  return refused;
}

template <class T>
[[nodiscard]] constexpr Parsed<T> accept(const T& value) noexcept {
  Parsed<T> accepted;
  accepted.value = value;
  return accepted;
}

}  // namespace rtrs::wire
