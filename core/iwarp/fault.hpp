// What a peer can do wrong, each with its words and with what it is answered.
#pragma once
#include <cstdint>

namespace rtrs::iwarp {

enum class Fault : std::uint8_t {
  none = 0,
  // --- of the MPA request or reply (greeting.hpp) ---
  bad_key,                 // not the 16 octets that open a request or a reply
  bad_revision,            // not MPA revision 1 or 2; of an accept: not revision 2
  bad_flags,               // a request that rejects
  markers,                 // the peer wants MPA markers
  private_data_too_long,   // more than 512 octets
  private_data_too_short,  // less than the field of IRD and ORD that the S flag announces
  not_enhanced,            // an accept without the field of IRD and ORD that the request had
  bad_own_version,         // our field in the private data has another version
  bytes_behind_greeting,   // octets behind a request before its reply, or behind a reply
  // --- of the stream (stream.hpp) ---
  bad_length,            // an FPDU too short for its header, or an empty segment that is not the last
  bad_tagged_version,    // DDP version of a tagged segment
  bad_untagged_version,  // DDP version of an untagged segment
  bad_rdmap_version,
  bad_opcode,        // not 0 or 3 to 8, or tagged where it must be untagged or the other way round
  unknown_key,       // the key (STag) is not alive; Memory says so
  foreign_key,       // the key is of another session; Memory says so
  out_of_bounds,     // the octets are not all inside what the key covers; Memory says so
  offset_wraps,      // offset and length go beyond 2^64; Memory says so
  broken_message,    // a segment that does not continue the message that is open
  write_too_long,    // a write longer than Options::max_message
  bad_queue,         // queue number
  bad_number,        // message sequence number
  bad_offset,        // message offset
  message_too_long,  // longer than the receive or than Options::max_message
  bad_immediate,     // an Immediate Data message that is not one segment of 8 octets
  bad_terminate,     // a Terminate message that is not one segment of 4 to 64 octets
  no_receive,        // no receive was posted for too long; the caller's deadline says so
  bad_invalidation,  // SEND with invalidate of a key that may not be; Memory says so
  bad_crc,
};
inline constexpr unsigned kFaultCount = static_cast<unsigned>(Fault::bad_crc) + 1;

// A static phrase without a full stop, never null: "an octet that no MPA request has".
[[nodiscard]] const char* to_string(Fault) noexcept;

// Where a Terminate message says that the error was, and what it was.
struct TerminateCode {
  std::uint8_t layer = 0;  // 0..15: 0 RDMAP, 1 DDP, 2 MPA
  std::uint8_t type = 0;   // 0..15
  std::uint8_t code = 0;
  bool operator==(const TerminateCode&) const = default;
};
// What the Terminate message says of a fault of the stream. 2/0/4 for a fault of a request or reply, which no
// Terminate message may answer; 0/0/0 for none.
[[nodiscard]] TerminateCode terminate_code(Fault) noexcept;

// What answers a fault. An initiator only ever closes before the stream.
enum class Answer : std::uint8_t {
  nothing,    // Fault::none
  close,      // the connection is closed
  reject,     // the request gets a reply that rejects it, then the connection is closed
  terminate,  // a Terminate message, then the connection is closed
};
[[nodiscard]] Answer answer_to(Fault) noexcept;

}  // namespace rtrs::iwarp
