// Properties of the terminal that a stream of this process is connected to.
#pragma once
#include <cstddef>
#include <cstdio>

namespace rtrs::tools {

// Returns true if lines can be overwritten: the stream is a terminal and TERM is not "dumb".
bool is_terminal(std::FILE* stream);
// Returns the width of the terminal in columns; 0 if `stream` is not a terminal or the width is unknown.
std::size_t columns_of(std::FILE* stream);
// Returns true if the stream is a terminal and NO_COLOR is unset or empty (no-color.org).
bool wants_color(std::FILE* stream);

}  // namespace rtrs::tools
