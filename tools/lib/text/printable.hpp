// Makes text from untrusted sources safe to print. Names of sessions and identities, files, traces and
// responses of other processes contain text that a peer chose.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace rtrs::tools {

// Returns the number of bytes at the start of `text` that must be escaped: a control character of ASCII or
// Unicode, a line separator, a mark of writing direction, or one byte that is not valid UTF-8. Returns 0 if
// the text is empty or starts with a harmless character.
std::size_t unsafe_bytes(std::string_view text) noexcept;

// Returns the text with each unsafe byte as \xNN. The result is valid UTF-8, stays on one line and cannot
// control a terminal.
std::string printable(std::string_view text);

// Returns at most `most` bytes of the text, cut between characters. Appends "..." if anything was cut off.
std::string shortened(const std::string& text, std::size_t most = 200);

}  // namespace rtrs::tools
