// Prints the sequence diagram as text for a terminal: one column per lane, one line per step.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "tools/lib/trace/sequence/build.hpp"

namespace rtrs::tools::sequence {

// Selects the steps [from, to) whose group is in `groups` (bit number = Group). Marked steps are always
// shown.
struct Window {
  std::size_t from = 0, to = 0;
  unsigned groups = ~0U;
  bool shows(const Step& step, std::size_t number) const noexcept;
};

struct TextStyle {
  bool color = false;
  bool ascii = false;     // draw with ASCII instead of box drawing characters
  std::size_t width = 0;  // columns of the terminal; 0: no limit
  bool by_path = false;   // one lane per path instead of per connection
  trace::TimeBase times;  // shows the times of Story::clock_file()
};

// Calls `line` for each line of the diagram; stops if it returns false.
void print_diagram(const StoryReader& reader, const Window& window, const TextStyle& style,
                   const std::function<bool(std::string_view)>& line);

// Returns, for example, "1.25 ms".
std::string duration_words(std::int64_t ns);

}  // namespace rtrs::tools::sequence
