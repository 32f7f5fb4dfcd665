// How deep a text in JSON is nested, told before it is parsed. A callback of the parser could tell it too,
// but with one the parser goes through all of an array again at the end of each element.
#pragma once
#include <cstddef>
#include <string_view>

namespace rtrs::tools {

// More than `most` objects and arrays lie in each other. Of what is not JSON the answer means nothing.
inline bool is_nested_deeper(std::string_view json, int most) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t at = 0; at < json.size(); ++at) {
    const char c = json[at];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++at;
    if (quoted) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > most) return true;
  }
  return false;
}

}  // namespace rtrs::tools
