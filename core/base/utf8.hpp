// UTF-8 as RFC 3629 defines it.
#pragma once
#include <cstddef>
#include <string_view>

namespace rtrs {

// Returns the number of bytes, 1 to 4, of the character at the start of `text`. Returns 0 if `text` is empty
// or does not start with a valid character (a stray byte, an overlong form, a surrogate, a value above
// U+10FFFF, or a truncated character).
std::size_t utf8_length(std::string_view text) noexcept;

// Returns the character at the start of `text`, which must be valid (utf8_length() is not 0).
char32_t utf8_character(std::string_view text) noexcept;

}  // namespace rtrs
