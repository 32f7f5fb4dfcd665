// Help texts of at most 80 columns.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace rtrs::tools {

inline constexpr std::size_t kHelpWidth = 80;
// Where the meanings of options stand. The manual pages are made from that (docs/man/man_page.py).
inline constexpr std::size_t kHelpColumn = 30;

// Cuts lines between words, so that each ends before kHelpWidth when the first begins at column `indent`; the
// others get as many spaces in front. Lines that begin with a space are examples and stay as they are, and so
// does a word that is too long for a line.
std::string wrapped(std::string_view text, std::size_t indent = 0);

// "  --name TYPE        meaning" with line feed; a name that is too long for its column has a line of its
// own.
std::string help_entry(std::string_view name, std::string_view meaning, std::size_t column = kHelpColumn);

// The entries of a help text that are about an option ("--port", or "port") or a parameter ("port", of
// "port=N"), as they stand there; empty: there is none.
std::string help_entries_about(std::string_view help, std::string_view topic);

}  // namespace rtrs::tools
