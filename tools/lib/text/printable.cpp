#include "tools/lib/text/printable.hpp"

#include <fmt/format.h>

namespace rtrs::tools {

namespace {

// Bytes of the character that begins at `at` and could steer a terminal; 0: it is harmless.
std::size_t steering(const std::string& text, std::size_t at) {
  const auto byte = [&text](std::size_t index) {
    return index < text.size() ? static_cast<unsigned char>(text[index]) : 0U;
  };
  if (byte(at) < 0x20 || byte(at) == 0x7f) return 1;
  if (byte(at) == 0xc2 && byte(at + 1) >= 0x80 && byte(at + 1) < 0xa0) return 2;  // U+0080..U+009F
  if (byte(at) != 0xe2) return 0;
  // U+200E..U+202E and U+2066..U+2069, among which are all marks of direction.
  const bool marks = (byte(at + 1) == 0x80 && byte(at + 2) >= 0x8e && byte(at + 2) <= 0xae) ||
                     (byte(at + 1) == 0x81 && byte(at + 2) >= 0xa6 && byte(at + 2) <= 0xa9);
  return marks ? 3 : 0;
}

}  // namespace

std::string printable(const std::string& text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t escaped = steering(text, at);
    if (escaped == 0) shown += text[at];
    for (; escaped > 0; --escaped, ++at) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
      if (escaped == 1) break;
    }
  }
  return shown;
}

std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  // Not within a character.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace rtrs::tools
