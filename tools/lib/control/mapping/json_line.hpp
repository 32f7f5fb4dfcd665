// Finds line numbers in a JSON text, for error messages.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rtrs::mapping {

// Path from the root to a value: keys of objects, and array indexes (from 0) as text.
using JsonPlace = std::vector<std::string>;

// Returns the line (from 1) of the value at `place` in `text`, which must be JSON. If there is no such value,
// returns the line of the innermost enclosing value.
std::size_t line_of(std::string_view text, const JsonPlace& place);
// Returns the line (from 1) of the first syntax error in `text`.
std::size_t line_of_mistake(std::string_view text);

}  // namespace rtrs::mapping
