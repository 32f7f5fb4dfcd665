// Where in a text of JSON something stands, for messages about it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rtrs::mapping {

// Keys of objects, and numbers of items of lists from 0 on.
using JsonPlace = std::vector<std::string>;

// The line, from 1 on, of the value at `place` in `text`, which is JSON; of what is nearest around it where
// it is not there.
std::size_t line_of(std::string_view text, const JsonPlace& place);
// The line of the first byte that no JSON has there.
std::size_t line_of_mistake(std::string_view text);

}  // namespace rtrs::mapping
