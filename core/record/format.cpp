#include "core/record/format.hpp"

#include "core/base/crc32c.hpp"
#include "core/base/utf8.hpp"

namespace rtrs::trace {

void put_u32(std::uint8_t* out, std::uint32_t value) noexcept {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<std::uint8_t>(value >> (8 * i));
}
void put_u64(std::uint8_t* out, std::uint64_t value) noexcept {
  for (int i = 0; i < 8; ++i) out[i] = static_cast<std::uint8_t>(value >> (8 * i));
}
std::uint32_t get_u16(const std::uint8_t* from) noexcept {
  return from[0] | static_cast<std::uint32_t>(from[1]) << 8;
}
std::uint32_t get_u32(const std::uint8_t* from) noexcept {
  return get_u16(from) | get_u16(from + 2) << 16;
}
std::uint64_t get_u64(const std::uint8_t* from) noexcept {
  return get_u32(from) | static_cast<std::uint64_t>(get_u32(from + 4)) << 32;
}

void encode_frame_head(const FrameHead& head, std::uint8_t* out) noexcept {
  put_u32(out, head.tag);
  put_u32(out + 4, head.size);
  put_u32(out + 8, head.count);
  put_u64(out + 12, head.first);
  put_u64(out + 20, head.second);
}

FrameHead decode_frame_head(const std::uint8_t* from) noexcept {
  FrameHead head;
  head.tag = get_u32(from);
  head.size = get_u32(from + 4);
  head.count = get_u32(from + 8);
  head.first = get_u64(from + 12);
  head.second = get_u64(from + 20);
  return head;
}

void encode_index_entry(const IndexEntry& entry, std::uint8_t* out) noexcept {
  put_u64(out, entry.offset);
  put_u64(out + 8, entry.first_seq);
  put_u64(out + 16, entry.base_time);
}

IndexEntry decode_index_entry(const std::uint8_t* from) noexcept {
  return {get_u64(from), get_u64(from + 8), get_u64(from + 16)};
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string clean_text(std::string_view text) {
  std::string clean;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (clean.size() + (length == 0 ? 1 : length) > kMaxText) break;
    if (length == 0) {
      clean += '?';
      text.remove_prefix(1);
    } else {
      clean += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  return clean;
}

}  // namespace rtrs::trace
