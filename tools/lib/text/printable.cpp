#include "tools/lib/text/printable.hpp"

#include <fmt/format.h>

#include <iterator>

#include "core/base/utf8.hpp"

namespace rtrs::tools {

namespace {

bool is_unsafe(char32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) ||  // C0, DEL, C1
         character == 0x61c || character == 0xfeff ||     // Arabic letter mark, byte order mark
         (character >= 0x200e && character <= 0x202e) ||  // marks of direction, line separators
         (character >= 0x2060 && character <= 0x206f);    // isolates, invisible operators
}

}  // namespace

std::size_t unsafe_bytes(std::string_view text) noexcept {
  if (text.empty()) return 0;
  if (text[0] >= 0x20 && text[0] < 0x7f) return 0;
  const std::size_t length = utf8_length(text);
  if (length == 0) return 1;
  return is_unsafe(utf8_character(text)) ? length : 0;
}

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t unsafe = unsafe_bytes(text);
    const std::size_t length = unsafe != 0 ? unsafe : utf8_length(text);
    for (const char byte : text.substr(0, length)) {
      if (unsafe == 0) {
        shown += byte;
      } else {
        fmt::format_to(std::back_inserter(shown), "\\x{:02x}", static_cast<unsigned char>(byte));
      }
    }
    text.remove_prefix(length);
  }
  return shown;
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace rtrs::tools
