#include "core/wire/refusal.hpp"

#include <array>
#include <cstddef>

namespace rtrs::wire {
namespace {

constexpr std::array<const char*, kRefusalCount> kWords{
    "none",         "too_short",       "bad_magic",     "bad_version",    "bad_type",
    "bad_errno",    "bad_cid",         "bad_cid_num",   "bad_name",       "bad_count",
    "bad_length",   "bad_key",         "bad_offset",    "bad_buffer_id",  "bad_user_length",
    "bad_sg_count", "bad_descriptor",  "bad_depth",     "bad_chunk_size", "bad_immediate",
    "bad_opcode",   "bad_access_mode", "bad_direction", "bad_block_size", "unnegotiated_generation",
    "bad_uuid"};
static_assert(kWords.back() != nullptr);

}  // namespace

const char* to_string(Refusal why) noexcept {
  const auto index = static_cast<std::size_t>(why);
  return index < kWords.size() ? kWords[index] : "unknown";
}

}  // namespace rtrs::wire
