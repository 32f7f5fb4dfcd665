#include "core/iwarp/fault.hpp"

namespace rtrs::iwarp {
namespace {

constexpr std::uint8_t kRdmap = 0;
constexpr std::uint8_t kDdp = 1;
constexpr std::uint8_t kMpa = 2;

}  // namespace

const char* to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::none:
      return "no fault";
    case Fault::bad_key:
      return "the connection does not start with MPA; does the other end use another fabric?";
    case Fault::bad_revision:
      return "an MPA revision that is not known";
    case Fault::bad_flags:
      return "an MPA request that rejects";
    case Fault::markers:
      return "the peer requires MPA markers";
    case Fault::private_data_too_long:
      return "more than 512 bytes of private data";
    case Fault::private_data_too_short:
      return "private data too short for IRD and ORD";
    case Fault::not_enhanced:
      return "an MPA reply without IRD and ORD";
    case Fault::bad_own_version:
      return "private data of another version of urtrs";
    case Fault::bytes_behind_greeting:
      return "bytes behind an MPA request or reply that had no answer yet";
    case Fault::bad_length:
      return "a length that no segment can have";
    case Fault::bad_tagged_version:
      return "a DDP version that is not 1 in a tagged segment";
    case Fault::bad_untagged_version:
      return "a DDP version that is not 1 in an untagged segment";
    case Fault::bad_rdmap_version:
      return "an RDMAP version that is not 1";
    case Fault::bad_opcode:
      return "an operation that is not served here";
    case Fault::unknown_key:
      return "a memory key that does not exist or is dead";
    case Fault::foreign_key:
      return "a memory key of another session";
    case Fault::out_of_bounds:
      return "a write outside the memory of its key";
    case Fault::offset_wraps:
      return "a write beyond the last address";
    case Fault::broken_message:
      return "a segment that does not continue the message before it";
    case Fault::write_too_long:
      return "a write longer than allowed";
    case Fault::bad_queue:
      return "a queue that does not exist";
    case Fault::bad_number:
      return "a message number that is not the next";
    case Fault::bad_offset:
      return "an offset that is not the next of its message";
    case Fault::message_too_long:
      return "a message longer than its receive or than allowed";
    case Fault::bad_immediate:
      return "an immediate that is not one segment of 8 bytes";
    case Fault::bad_terminate:
      return "a Terminate message that is not one segment of 4 to 64 bytes";
    case Fault::no_receive:
      return "a message for which no receive was posted";
    case Fault::bad_invalidation:
      return "an invalidation of a key that was not offered for it";
    case Fault::bad_crc:
      return "a wrong CRC";
  }
  return "unknown";
}

// The codes are from RFC 5040 section 4.8, RFC 5041 section 8.2 and RFC 5044 section 8.
TerminateCode terminate_code(Fault fault) noexcept {
  switch (fault) {
    case Fault::none:
      return {};
    case Fault::bad_invalidation:
      return {kRdmap, 1, 9};
    case Fault::bad_rdmap_version:
      return {kRdmap, 2, 5};
    case Fault::bad_opcode:
      return {kRdmap, 2, 6};
    case Fault::unknown_key:
      return {kDdp, 1, 0};
    case Fault::out_of_bounds:
    case Fault::broken_message:
    case Fault::write_too_long:
      return {kDdp, 1, 1};
    case Fault::foreign_key:
      return {kDdp, 1, 2};
    case Fault::offset_wraps:
      return {kDdp, 1, 3};
    case Fault::bad_tagged_version:
      return {kDdp, 1, 4};
    case Fault::bad_queue:
      return {kDdp, 2, 1};
    case Fault::no_receive:
      return {kDdp, 2, 2};
    case Fault::bad_number:
      return {kDdp, 2, 3};
    case Fault::bad_offset:
      return {kDdp, 2, 4};
    case Fault::message_too_long:
    case Fault::bad_immediate:
      return {kDdp, 2, 5};
    case Fault::bad_untagged_version:
      return {kDdp, 2, 6};
    case Fault::bad_crc:
      return {kMpa, 0, 2};
    case Fault::bad_length:
    case Fault::bad_terminate:
      return {kMpa, 0, 3};
    default:
      return {kMpa, 0, 4};
  }
}

Answer answer_to(Fault fault) noexcept {
  if (fault == Fault::none) return Answer::nothing;
  if (fault == Fault::markers) return Answer::reject;
  return fault < Fault::bad_length ? Answer::close : Answer::terminate;
}

}  // namespace rtrs::iwarp
