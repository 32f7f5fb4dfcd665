// Names and sentences that somebody else chose, made safe to show. Sessions, identities, files and traces
// carry text of peers, and so do the answers of other processes.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace rtrs::tools {

// Number of bytes at the start of `text` that must be escaped: a control character of ASCII or Unicode, a
// line separator, a mark of writing direction, or one byte that is not valid UTF-8. 0: the text is empty or
// starts with a harmless character.
std::size_t unsafe_bytes(std::string_view text) noexcept;

// The text with each unsafe byte as \xNN. The result is valid UTF-8, stays on one line and cannot control a
// terminal.
std::string printable(std::string_view text);

// At most `most` bytes of the text, cut between characters, with "..." behind it if anything was left out.
std::string shortened(const std::string& text, std::size_t most = 200);

}  // namespace rtrs::tools
