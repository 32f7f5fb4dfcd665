#include "core/base/utf8.hpp"

namespace rtrs {

std::size_t utf8_length(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto byte = [text](std::size_t i) -> unsigned { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(1);
  if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f)) return 0;
  if ((lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f)) return 0;
  return length;
}

char32_t utf8_character(std::string_view text) noexcept {
  const std::size_t length = utf8_length(text);
  const auto lead = static_cast<unsigned char>(text[0]);
  if (length == 1) return lead;
  char32_t value = lead & (0x7fU >> length);
  for (const char next : text.substr(1, length - 1))
    value = value << 6 | (static_cast<unsigned char>(next) & 0x3f);
  return value;
}

}  // namespace rtrs
