// Formats help texts to at most 80 columns.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace rtrs::tools {

inline constexpr std::size_t kHelpWidth = 80;
// Column in which the meanings of options begin. docs/man/man_page.py relies on it to generate the manual
// pages.
inline constexpr std::size_t kHelpColumn = 30;

// Wraps lines between words to at most kHelpWidth columns. The first line is assumed to begin at column
// `indent`; the continuation lines are indented by `indent` spaces. Lines that begin with a space are
// examples and stay unchanged. A word that is too long for a line is not split.
std::string wrapped(std::string_view text, std::size_t indent = 0);

// Returns "  --name TYPE        meaning\n". A name that is too long for its column gets a separate line.
std::string help_entry(std::string_view name, std::string_view meaning, std::size_t column = kHelpColumn);

// Returns the unchanged entries of a help text that describe an option ("--port" or "port") or a parameter
// ("port" of "port=N"). Returns an empty string if there is none.
std::string help_entries_about(std::string_view help, std::string_view topic);

}  // namespace rtrs::tools
