#include "core/iwarp/fault.hpp"

#include <array>

namespace rtrs::iwarp {
namespace {

struct Row {
  const char* words;
  TerminateCode code;
};

constexpr std::uint8_t kRdmap = 0;
constexpr std::uint8_t kDdp = 1;
constexpr std::uint8_t kMpa = 2;
constexpr TerminateCode kBadGreeting{kMpa, 0, 4};

constexpr Row row_of(Fault fault) {
  switch (fault) {
    case Fault::none:
      return {"no fault", {}};
    case Fault::bad_key:
      return {"the connection does not begin as MPA does", kBadGreeting};
    case Fault::bad_revision:
      return {"an MPA revision that is not known", kBadGreeting};
    case Fault::bad_flags:
      return {"an MPA request that rejects", kBadGreeting};
    case Fault::markers:
      return {"the peer wants MPA markers", kBadGreeting};
    case Fault::private_data_too_long:
      return {"more than 512 bytes of private data", kBadGreeting};
    case Fault::private_data_too_short:
      return {"private data too short for IRD and ORD", kBadGreeting};
    case Fault::not_enhanced:
      return {"an MPA reply without IRD and ORD", kBadGreeting};
    case Fault::bad_own_version:
      return {"private data of another version of urtrs", kBadGreeting};
    case Fault::bytes_behind_greeting:
      return {"bytes behind an MPA request or reply that had no answer yet", kBadGreeting};
    case Fault::bad_length:
      return {"a length that no segment can have", {kMpa, 0, 3}};
    case Fault::bad_tagged_version:
      return {"a DDP version that is not 1 in a tagged segment", {kDdp, 1, 4}};
    case Fault::bad_untagged_version:
      return {"a DDP version that is not 1 in an untagged segment", {kDdp, 2, 6}};
    case Fault::bad_rdmap_version:
      return {"an RDMAP version that is not 1", {kRdmap, 2, 5}};
    case Fault::bad_opcode:
      return {"an operation that is not served here", {kRdmap, 2, 6}};
    case Fault::unknown_key:
      return {"a memory key that does not exist or is dead", {kDdp, 1, 0}};
    case Fault::foreign_key:
      return {"a memory key of another session", {kDdp, 1, 2}};
    case Fault::out_of_bounds:
      return {"a write outside the memory of its key", {kDdp, 1, 1}};
    case Fault::offset_wraps:
      return {"a write beyond the last address", {kDdp, 1, 3}};
    case Fault::broken_message:
      return {"a segment that does not continue the message before it", {kDdp, 1, 1}};
    case Fault::bad_queue:
      return {"a queue that does not exist", {kDdp, 2, 1}};
    case Fault::bad_number:
      return {"a message number that is not the next", {kDdp, 2, 3}};
    case Fault::bad_offset:
      return {"an offset that is not the next of its message", {kDdp, 2, 4}};
    case Fault::message_too_long:
      return {"a message longer than allowed", {kDdp, 2, 5}};
    case Fault::bad_immediate:
      return {"an immediate that is not one segment of 8 bytes", {kDdp, 2, 5}};
    case Fault::bad_terminate:
      return {"a Terminate message that is not one segment of at least 4 bytes", {kMpa, 0, 3}};
    case Fault::no_receive:
      return {"a message for which no receive was posted", {kDdp, 2, 2}};
    case Fault::bad_invalidation:
      return {"an invalidation of a key that was not offered for it", {kRdmap, 1, 9}};
    case Fault::bad_crc:
      return {"a wrong CRC", {kMpa, 0, 2}};
  }
  return {"unknown", {}};
}

}  // namespace

const char* to_string(Fault fault) noexcept {
  return row_of(fault).words;
}

TerminateCode terminate_code(Fault fault) noexcept {
  return row_of(fault).code;
}

Answer answer_to(Fault fault) noexcept {
  if (fault == Fault::none) return Answer::nothing;
  if (fault == Fault::markers) return Answer::reject;
  return fault < Fault::bad_length ? Answer::close : Answer::terminate;
}

}  // namespace rtrs::iwarp
