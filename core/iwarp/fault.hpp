// Protocol faults of a peer, their descriptions and the response to each.
#pragma once
#include <cstdint>

namespace rtrs::iwarp {

enum class Fault : std::uint8_t {
  none = 0,
  // --- faults of the MPA request or reply (greeting.hpp) ---
  bad_key,                 // not the 16 bytes that start a request or a reply
  bad_revision,            // MPA revision other than 1 or 2; in an accept: other than 2
  bad_flags,               // a request with the reject flag
  markers,                 // the peer requests MPA markers
  private_data_too_long,   // private data longer than 512 bytes
  private_data_too_short,  // private data shorter than the IRD/ORD field that the S flag announces
  not_enhanced,            // an accept without the IRD/ORD field that the request had
  bad_own_version,         // the urtrs field in the private data has an unsupported version
  bytes_behind_greeting,   // bytes after a request before its reply, or after a reply
  // --- faults of the stream (stream.hpp) ---
  bad_length,            // an FPDU too short for its header, or an empty segment that is not the last
  bad_tagged_version,    // wrong DDP version of a tagged segment
  bad_untagged_version,  // wrong DDP version of an untagged segment
  bad_rdmap_version,
  bad_opcode,        // opcode not 0 or 3 to 8, or tagged instead of untagged or vice versa
  unknown_key,       // the key (STag) is not valid; reported by Memory
  foreign_key,       // the key belongs to another session; reported by Memory
  out_of_bounds,     // the range is not wholly inside the key's memory; reported by Memory
  offset_wraps,      // offset plus length exceeds 2^64; reported by Memory
  broken_message,    // a segment that does not continue the open message
  write_too_long,    // a write longer than Options::max_message
  bad_queue,         // wrong queue number
  bad_number,        // wrong message sequence number
  bad_offset,        // wrong message offset
  message_too_long,  // message longer than the receive or than Options::max_message
  bad_immediate,     // an Immediate Data message that is not one segment of 8 bytes
  bad_terminate,     // a Terminate message that is not one segment of 4 to 64 bytes
  no_receive,        // no receive was posted for too long; detected by the caller's timeout
  bad_invalidation,  // SEND with invalidate of a key that must not be invalidated; reported by Memory
  bad_crc,
};
inline constexpr unsigned kFaultCount = static_cast<unsigned>(Fault::bad_crc) + 1;

// Returns a static phrase without a full stop, such as "an MPA revision that is not known". Never null.
[[nodiscard]] const char* to_string(Fault) noexcept;

// Layer, type and code of the error in a Terminate message.
struct TerminateCode {
  std::uint8_t layer = 0;  // 0..15: 0 RDMAP, 1 DDP, 2 MPA
  std::uint8_t type = 0;   // 0..15
  std::uint8_t code = 0;
  bool operator==(const TerminateCode&) const = default;
};
// Returns the Terminate code of a fault. For a fault of a request or reply, which no Terminate message may
// answer, the code is 2/0/4; for Fault::none, it is 0/0/0.
[[nodiscard]] TerminateCode terminate_code(Fault) noexcept;

// The response to a fault. An initiator always closes on a fault of the MPA reply.
enum class Answer : std::uint8_t {
  nothing,    // no response, for Fault::none
  close,      // close the connection
  reject,     // send a reply that rejects the request, then close the connection
  terminate,  // send a Terminate message, then close the connection
};
[[nodiscard]] Answer answer_to(Fault) noexcept;

}  // namespace rtrs::iwarp
