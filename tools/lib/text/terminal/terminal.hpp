// What a stream of this process is connected to.
#pragma once
#include <cstddef>
#include <cstdio>

namespace rtrs::tools {

// Whether lines can be rewritten there: a terminal that is not TERM=dumb.
bool is_terminal(std::FILE* stream);
// 0: `stream` is no terminal, or it does not say.
std::size_t columns_of(std::FILE* stream);
// A terminal, and NO_COLOR is unset or empty (no-color.org).
bool wants_color(std::FILE* stream);

}  // namespace rtrs::tools
