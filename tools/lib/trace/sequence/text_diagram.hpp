// The sequence diagram as lines for a terminal: a lane a column, a step a line.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "tools/lib/trace/sequence/story.hpp"

namespace rtrs::tools::sequence {

// Steps [from, to) of the story, of the chosen groups (bit = Group). Marked steps are always shown.
struct Window {
  std::size_t from = 0, to = 0;
  unsigned groups = ~0U;
  bool shows(const Story& story, std::size_t step) const noexcept;
};

struct TextStyle {
  bool color = false;
  bool ascii = false;     // no box drawing characters
  std::size_t width = 0;  // columns of the terminal, 0: lines may be of any length
  bool by_path = false;   // one lane a path instead of one a connection
};

// Calls `line` for every line; ends early when it answers false.
void print_diagram(const Story& story, const Window& window, const TextStyle& style,
                   const std::function<bool(std::string_view)>& line);

// "1.25 ms"
std::string duration_words(std::int64_t ns);

}  // namespace rtrs::tools::sequence
