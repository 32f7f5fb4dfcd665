// UTF-8 as RFC 3629 defines it.
#pragma once
#include <cstddef>
#include <string_view>

namespace rtrs {

// Bytes of the character at the start of `text`, 1 to 4. 0: `text` is empty or does not start with a valid
// character (a stray byte, an overlong form, a surrogate, a value above U+10FFFF, or a character that is cut
// off).
std::size_t utf8_length(std::string_view text) noexcept;

// The character at the start of `text`, which must be valid (utf8_length() is not 0).
char32_t utf8_character(std::string_view text) noexcept;

}  // namespace rtrs
