// Checks how deeply a JSON text is nested, before it is parsed. A parser callback could check this too, but
// would be slow: with a callback, nlohmann::json walks the whole array again at the end of each element.
#pragma once
#include <cstddef>
#include <string_view>

namespace rtrs::tools {

// Returns true if more than `most` objects and arrays are nested in each other. The result is meaningless if
// the text is not valid JSON.
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
